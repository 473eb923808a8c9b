// Steps through the frames of one figure. Called with its root and what Player.data() gives.
(function (root, data) {
  "use strict";

  const part = (name) => root.querySelector('[data-part="' + name + '"]');
  const boxes = part("boxes").children, words = part("words").children, notes = part("notes");
  const inks = root.querySelectorAll(".qt-picture [data-ink]");
  const sliders = [...root.querySelectorAll("input[type=range]")];
  const outputs = [...root.querySelectorAll("output")];
  const buttons = [...root.querySelectorAll("button[data-go]")], stage = root.querySelector(".qt-stage");
  const where = root.querySelector(".qt-source b"), sentence = root.querySelector(".qt-caption p");
  const source = where.nextSibling, caption = root.querySelector(".qt-caption");
  const picture = root.querySelector(".qt-picture"), svg = picture.querySelector("svg");
  const texts = Array.from(words, (word) => word.textContent);
  const attribute = (node, values) => { for (const name in values) node.setAttribute(name, values[name]); };
  const last = data.frames.length - 1;
    // A player may open with a later picture, the preview: Next then begins at step 1.
  const hasPreview = !data.axes && data.start > 0;
  let at = 0, paths = {}, roles = [], places = null, previews = hasPreview;

  // "a3r2" -> a a a r r; "#" stands before a digit that is a letter.
  function letters(runs) {
    return [...runs.matchAll(/(#\d|[^#\d])(\d*)/g)].flatMap((run) => Array(Number(run[2] || 1)).fill(run[1].slice(-1)));
  }

  function setRoles(all) {
    all.forEach((role, i) => {
      boxes[i].setAttribute("data-r", role);
      boxes[i].removeAttribute("visibility");
      words[i].setAttribute("data-w", role);
    });
  }

  function setText(i) {
    const word = words[i], width = Number(boxes[i].getAttribute("width")), text = texts[i];
    const code = word.classList.contains("qt-code"), room = Math.floor((width - 12) / 6.95);
    word.textContent = code && text.length > room ? text.slice(0, room - 1) + "…" : text;
  }

  function setLabels(group, rows) {
    group.replaceChildren(...rows.map(([x, y, text, anchor, kind]) => {
      const label = document.createElementNS(group.namespaceURI, "text");
      attribute(label, { x, y, "text-anchor": anchor });
      if (kind) label.setAttribute("class", "qt-" + kind);
      label.textContent = text;
      return label;
    }));
  }

  // Where a point of the wide picture is in the narrow one: it goes with the box that it lies in, or is the first to the right.
  function moved(x, y) {
    if (places !== "narrow") return [x, y];
    const from = data.wide[2], to = data.narrow[2];
    let i = 0;
    for (let k = 0; k < from.length; k += 4) if (y >= from[k + 1] && (x >= from[k] || from[k] === from[0])) i = k;
    return [to[i] + ((x - from[i]) * to[i + 2]) / from[i + 2], to[i + 1] + y - from[i + 1]];
  }

  function setNotes() {
    setLabels(notes, (data.frames[at].n || []).map(([x, y, ...rest]) => [...moved(x, y), ...rest]));
  }

  // Links between boxes ("3>40 ") as a path, like scene.drawn(); what is a path already stays.
  const line = (x0, y0, x1, y1) => `M${x0} ${y0}L${x1} ${y1}`;
  function arrow(x0, y0, x1, y1) {
    const length = Math.max(Math.hypot(x1 - x0, y1 - y0), 1e-6), u = ((x1 - x0) / length) * 5, v = ((y1 - y0) / length) * 5;
    const head = [[x1 - u - v * 0.6, y1 - v + u * 0.6], [x1 - u + v * 0.6, y1 - v - u * 0.6]];
    return line(x0, y0, x1, y1) + head.map(([x, y]) => line(x, y, x1, y1)).join("");
  }
  function drawn(ink, head) {
    if (!/^\d/.test(ink)) return ink.replace(/M([\d.]+) ([\d.]+)h([\d.]+)(v[\d.]+)h\S+?z/g, (area, x, y, width, down) => {
      const [[left, top], [right]] = [moved(+x, +y), moved(+x + +width, +y)];
      return `M${left} ${top}h${right - left}${down}h${left - right}z`;
    });
    return ink.trim().split(" ").map((pair) => {
      const [a, b] = pair.split(">").map((i) => {
        const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => Number(boxes[i].getAttribute(name)));
        return { x, y, w, h, code: words[i].classList.contains("qt-code") };
      });
      if (a.code && b.code) {
        const y0 = a.y + a.h / 2, y1 = b.y + b.h / 2;
        if (a.x !== b.x) return a.x < b.x ? arrow(a.x + a.w + 3, y0, b.x - 3, y1) : arrow(a.x - 3, y0, b.x + b.w + 3, y1);
        const x = a.x + a.w + 2;
        return line(x, y0, x + 12, y0) + line(x + 12, y0, x + 12, y1) + arrow(x + 12, y1, x, y1);
      }
      const down = a.y < b.y;
      const y0 = down ? a.y + a.h + 1 : a.y - 1, y1 = down ? b.y - 2 : b.y + b.h + 1;
      return (head ? arrow : line)(a.x + a.w / 2, y0, b.x + b.w / 2, y1);
    }).join("");
  }

  function paint() {
    setRoles(roles);
    for (const ink of inks) ink.setAttribute("d", drawn(paths[ink.dataset.ink] || "", ink.dataset.ink !== "thin"));
    sentence.textContent = data.frames[at].c;
  }

  // Frames hold changes: going back means starting again from the first, which is whole.
  function show(to) {
    const first = to > at ? at + 1 : 0;
    const wanted = first ? {} : Object.fromEntries(texts.map((_, i) => [i, ""]));
    if (!first) paths = {};
    for (let k = first; k <= to; k++) {
      if (data.frames[k].r) roles = letters(data.frames[k].r);
      for (const [run, text] of Object.entries(data.frames[k].t || {})) {
        const [from, count] = run.split("+").map(Number);
        for (let k = 0; k < (count || text.length); k++) wanted[from + k] = count ? text : text[k];
      }
      const changes = data.frames[k].i || {};
      for (const name in changes) {
        const added = changes[name].startsWith("+");
        paths[name] = added ? paths[name] + changes[name].slice(1) : changes[name];
      }
    }
    for (const i in wanted) if (wanted[i] !== texts[i]) {
      texts[i] = wanted[i];
      setText(i);
    }
    at = to;
    const frame = data.frames[at];
    setNotes();
    const [place, code] = data.lines[frame.l];
    where.textContent = place;
    source.textContent = " " + code;
    paint();
    report();
    root.dispatchEvent(new CustomEvent("qt-step", { detail: at }));
  }

  function report() {
    let rest = at;
    for (let k = sliders.length - 1; k >= 0; k--) {
      const size = data.axes ? data.axes[k] : data.frames.length;
      const place = rest % size;
      rest = (rest - place) / size;
      const text = data.axes ? data.names[k][place] : previews && at === last ? "all " + size : place + 1 + " of " + size;
        sliders[k].value = data.axes ? place : place + 1;
      sliders[k].setAttribute("aria-valuetext", text);
      outputs[k].textContent = text;
    }
      const ends = { "-1": previews || !at, 1: !previews && at === last };
    for (const button of buttons) button.setAttribute("aria-disabled", String(ends[button.dataset.go]));
    if (stage) stage.textContent = previews ? data.preview : at === last ? "Step " + outputs[0].textContent + ", the end." : "";
  }

  // Captions differ in length: the tallest sets the room, so that the picture stays where it is.
  function reserve() {
    const words = sentence.textContent, said = stage && stage.textContent;
    caption.style.minHeight = "";
    const heights = data.frames.map((frame, k) => {
      if (stage) stage.textContent = k === last || (hasPreview && k === data.start) ? "Step" : "";
      sentence.textContent = frame.c;
      return caption.offsetHeight;
    });
    sentence.textContent = words;
    if (stage) stage.textContent = said;
    caption.style.minHeight = Math.max(...heights) + "px";
  }

  function go(to) {
    if (!caption.style.minHeight) reserve();
      const before = previews, bounded = Math.max(0, Math.min(last, to));
      previews = false;
      if (bounded !== at || before) show(bounded);
  }

  // From the preview to step 1, and no further than the end.
  function next() {
    go(previews ? 0 : at + 1);
  }
  function back() {
    if (!previews) go(at - 1);
  }

  // The picture changes its form where the wide one would have texts under 11 pixels.
  const leastWidth = data.narrow && (data.wide[0] * 11) / parseFloat(svg.getAttribute("font-size")) - 1;

  // Moves everything to where it is in the narrow picture or the wide one.
  function fit() {
    const wanted = picture.clientWidth < leastWidth ? "narrow" : "wide";
    if (!picture.clientWidth || wanted === places) return;
    places = wanted;
    const [width, height, box, labels, rules] = data[places];
    attribute(svg, { viewBox: `0 0 ${width} ${height}`, width, height });
    svg.parentNode.style.maxWidth = width + "px";
    caption.style.minHeight = "";
    for (let i = 0; i < boxes.length; i++) {
      const [x, y, w, h] = box.slice(4 * i, 4 * i + 4);
      attribute(boxes[i], { x, y, width: w, height: h });
      attribute(words[i], { x: words[i].classList.contains("qt-code") ? x + 7 : x + w / 2, y: y + h / 2 });
      setText(i);
    }
    setLabels(part("labels"), labels);
    setNotes();
    root.querySelector(".qt-rules").setAttribute("d", rules);
    paint();
  }

  root.addEventListener("qt-go", (event) => go(event.detail));
  for (const button of buttons) button.addEventListener("click", () => (button.dataset.go > 0 ? next() : back()));
  for (const slider of sliders) {
    slider.addEventListener("input", () => {
      let to = data.axes ? 0 : Number(slider.value) - 1;
      if (data.axes) sliders.forEach((other, k) => { to = to * data.axes[k] + Number(other.value); });
      go(to);
    });
  }
  if (!data.axes) {
    root.addEventListener("keydown", (event) => {
      const within = event.target.closest(".qt-picture");
      // A slider moves by itself; a picture wider than its box scrolls.
      if (event.target.matches("input") || (within && within.scrollWidth > within.clientWidth + 4)) return;
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const keys = { ArrowLeft: back, ArrowRight: next, Home: () => go(0), End: () => go(last) };
      if (!(event.key in keys)) return;
      event.preventDefault();
      event.stopPropagation();
      keys[event.key]();
    });
  }
  at = data.frames.length; // so that show() starts from the first frame
  show(data.start);
  if (data.narrow) {
    fit();
    new ResizeObserver(fit).observe(picture);
  }
});
