// Steps through the frames of one figure. Called with the id of its root and what Player.data() gives.
(function (id, data) {
  "use strict";

  function start(root) {
    root.dataset.ready = "";
    const part = (name) => root.querySelector('[data-part="' + name + '"]');
    const boxes = part("boxes").children, words = part("words").children, notes = part("notes");
    const inks = root.querySelectorAll(".qt-picture [data-ink]");
    const sliders = [...root.querySelectorAll("input[type=range]")];
    const outputs = [...root.querySelectorAll("output")];
    const buttons = [...root.querySelectorAll("button")];
    const where = root.querySelector(".qt-source b"), sentence = root.querySelector(".qt-caption p");
    const source = where.nextSibling;
    const texts = Array.from(words, (word) => word.textContent);
    let at = 0, paths = {};

    // "a3r2" -> a a a r r; "#" stands before a digit that is a letter.
    function setRoles(runs) {
      let i = 0;
      for (const run of runs.matchAll(/(#\d|[^#\d])(\d*)/g)) {
        const role = run[1].slice(-1);
        for (const end = i + Number(run[2] || 1); i < end; i++) {
          boxes[i].setAttribute("data-r", role);
          boxes[i].removeAttribute("visibility");
          words[i].setAttribute("data-w", role);
        }
      }
    }

    function setText(i, text) {
      const word = words[i], width = Number(boxes[i].getAttribute("width"));
      word.textContent = texts[i] = text;
      if (width < 44 && text.length * 6.1 > width - 2 && !word.classList.contains("qt-code")) {
        word.setAttribute("textLength", width - 3);
        word.setAttribute("lengthAdjust", "spacingAndGlyphs");
      } else {
        word.removeAttribute("textLength");
        word.removeAttribute("lengthAdjust");
      }
    }

    function setNotes(rows) {
      notes.replaceChildren(...rows.map(([x, y, text, anchor, kind]) => {
        const note = document.createElementNS(notes.namespaceURI, "text");
        note.setAttribute("x", x);
        note.setAttribute("y", y);
        note.setAttribute("text-anchor", anchor);
        if (kind) note.setAttribute("class", "qt-" + kind);
        note.textContent = text;
        return note;
      }));
    }

    // Frames hold changes: going back means starting again from the first, which is whole.
    function show(to) {
      const first = to > at ? at + 1 : 0;
      const wanted = first ? {} : Object.fromEntries(texts.map((_, i) => [i, ""]));
      if (!first) paths = {};
      let roles = null;
      for (let k = first; k <= to; k++) {
        roles = data.frames[k].r || roles;
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
      if (roles) setRoles(roles);
      for (const i in wanted) if (wanted[i] !== texts[i]) setText(i, wanted[i]);
      at = to;
      const frame = data.frames[at];
      for (const ink of inks) ink.setAttribute("d", paths[ink.dataset.ink] || "");
      setNotes(frame.n || []);
      const [place, code] = data.lines[frame.l];
      where.textContent = place;
      source.textContent = " " + code;
      sentence.textContent = frame.c;
      report();
    }

    function report() {
      let rest = at;
      for (let k = sliders.length - 1; k >= 0; k--) {
        const size = data.axes ? data.axes[k] : data.frames.length;
        const place = rest % size;
        rest = (rest - place) / size;
        const text = data.axes ? data.names[k][place] : place + 1 + " of " + size;
        sliders[k].value = place;
        sliders[k].setAttribute("aria-valuetext", text);
        outputs[k].textContent = text;
      }
      for (const button of buttons) {
        button.setAttribute("aria-disabled", String(!data.frames[at + Number(button.dataset.go)]));
      }
    }

    function go(to) {
      const bounded = Math.max(0, Math.min(data.frames.length - 1, to));
      if (bounded !== at) show(bounded);
    }

    for (const button of buttons) button.addEventListener("click", () => go(at + Number(button.dataset.go)));
    for (const slider of sliders) {
      slider.addEventListener("input", () => {
        let to = 0;
        sliders.forEach((other, k) => { to = to * (data.axes ? data.axes[k] : 1) + Number(other.value); });
        go(to);
      });
    }
    if (!data.axes) {
      root.addEventListener("keydown", (event) => {
        const picture = event.target.closest(".qt-picture");
        // A slider moves by itself; a picture wider than its box scrolls.
        if (event.target.matches("input") || (picture && picture.scrollWidth > picture.clientWidth + 4)) return;
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        const keys = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: data.frames.length - 1 };
        if (!(event.key in keys)) return;
        event.preventDefault();
        event.stopPropagation();
        go(keys[event.key]);
      });
    }
    at = data.frames.length; // so that show() starts from the first frame
    show(data.start);
    root.querySelector(".qt-controls").hidden = !sliders.length;
  }

  // An editor may run this script outside the figure: find the figure by its id, each only once.
  for (const root of document.querySelectorAll('[id="' + id + '"]:not([data-ready])')) start(root);
});
