// A tile to be asked both ways: (thread, value) by sliders, (row, column) by pointing or arrow keys.
(function (root, data) {
  "use strict";

  const picture = root.querySelector(".qt-picture");
  const [tile, table] = [...root.querySelectorAll('[data-side] [data-part="boxes"]')].map((part) => part.children);
  const [thread, value] = root.querySelectorAll("input[type=range]");
  const outputs = root.querySelectorAll("output");
  const sentence = root.querySelector(".qt-caption p");
  const rows = data.thread.length / data.columns;
  let at = -1;

  function mark(chosen) {
    for (let i = 0; i < tile.length; i++) {
      tile[i].classList.toggle("qt-own", data.thread[i] === chosen && i !== at);
      tile[i].classList.toggle("qt-at", i === at);
    }
    // The table has a row of boxes for each thread, and shows the same element.
    for (let i = 0; table && i < table.length; i++) {
      const here = at >= 0 && i === data.thread[at] * data.values + data.value[at];
      table[i].classList.toggle("qt-own", Math.floor(i / data.values) === chosen && !here);
      table[i].classList.toggle("qt-at", here);
    }
  }

  function stand(t, v) {
    thread.value = t;
    value.value = v;
    thread.setAttribute("aria-valuetext", t);
    value.setAttribute("aria-valuetext", v);
    outputs[0].textContent = t;
    outputs[1].textContent = v;
  }

  // From an element to its thread and value.
  function point(i) {
    at = i;
    const place = "(row " + Math.floor(i / data.columns) + ", column " + (i % data.columns) + ")";
    if (data.thread[i] < 0) {
      sentence.textContent = place + " → no thread holds it";
      return mark(-1);
    }
    stand(data.thread[i], data.value[i]);
    sentence.textContent = place + " → (thread " + data.thread[i] + ", value " + data.value[i] + ")";
    mark(data.thread[i]);
  }

  // From a thread and a value to the element.
  function ask() {
    const t = Number(thread.value), v = Number(value.value);
    at = data.thread.findIndex((other, i) => other === t && data.value[i] === v);
    stand(t, v);
    const place = at < 0 ? "no element of this tile" : "(row " + Math.floor(at / data.columns) + ", column " + (at % data.columns) + ")";
    sentence.textContent = "(thread " + t + ", value " + v + ") → " + place;
    mark(t);
  }

  const indexOf = (event) => {
    const place = (boxes) => Array.prototype.indexOf.call(boxes, event.target);
    const i = place(tile), entry = table ? place(table) : -1;
    if (i >= 0 && i !== at) point(i);
    if (entry >= 0) {
      stand(Math.floor(entry / data.values), entry % data.values);
      ask();
    }
  };
  picture.addEventListener("pointerover", indexOf);
  picture.addEventListener("click", indexOf);
  picture.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    const [down, right] = steps[event.key], now = Math.max(at, 0);
    const row = Math.min(rows - 1, Math.max(0, Math.floor(now / data.columns) + down));
    const column = Math.min(data.columns - 1, Math.max(0, (now % data.columns) + right));
    point(row * data.columns + column);
    tile[at].scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  thread.addEventListener("input", ask);
  value.addEventListener("input", ask);
  ask();
});
