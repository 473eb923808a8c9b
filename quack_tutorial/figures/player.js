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
  const texts = Array.from(words, (word) => word.textContent);
  const last = data.frames.length - 1;
    // A player may open with a later picture, the preview: Next then begins at step 1.
  const hasPreview = !data.axes && data.start > 0;
  let at = 0, paths = {}, roles = [], previews = hasPreview;

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

  function setNotes() {
    notes.replaceChildren(...(data.frames[at].n || []).map(([x, y, text, anchor, kind]) => {
      const label = document.createElementNS(notes.namespaceURI, "text");
      for (const [name, value] of Object.entries({ x, y, "text-anchor": anchor })) label.setAttribute(name, value);
      if (kind) label.setAttribute("class", "qt-" + kind);
      label.textContent = text;
      return label;
    }));
  }

  function paint() {
    setRoles(roles);
    for (const ink of inks) ink.setAttribute("d", paths[ink.dataset.ink] || "");
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
      texts[i] = words[i].textContent = wanted[i];
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
});
