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
  const last = data.frames.length - 1;
    // A player may open with a later picture, the preview: Next then begins at step 1.
  const hasPreview = !data.axes && data.start > 0;
  let at = 0, previews = hasPreview;

  function show(to) {
    const frame = data.frames[(at = to)];
    frame.t.forEach((text, i) => {
      boxes[i].setAttribute("data-r", frame.r[i]);
      boxes[i].removeAttribute("visibility");
      words[i].setAttribute("data-w", frame.r[i]);
      words[i].textContent = text;
    });
    for (const ink of inks) ink.setAttribute("d", frame.i[ink.dataset.ink] ?? "");
    notes.replaceChildren(...frame.n.map(([x, y, text, anchor, kind]) => {
      const label = document.createElementNS(notes.namespaceURI, "text");
      for (const [name, value] of Object.entries({ x, y, "text-anchor": anchor })) label.setAttribute(name, value);
      if (kind) label.setAttribute("class", "qt-" + kind);
      label.textContent = text;
      return label;
    }));
    where.textContent = frame.w;
    source.textContent = " " + frame.s;
    sentence.textContent = frame.c;
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
  show(data.start);
});
