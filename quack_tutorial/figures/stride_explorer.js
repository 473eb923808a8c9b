// Which sectors the lanes of a warp touch, for a stride, an element, an offset and a vector. Called with its root and
// {elements, vectors}: the values of two sliders.
(function (root, data) {
  "use strict";

  const LANES = 32, SECTOR = 32, LINE = 128, WIDEST = 16, HEIGHT = 280, TOP = 20, LEFT = 56;

  // What a copy of one vector a lane takes: `sectors` are those of all requests, `distinct` those that move once.
  function count(element, vector, stride, offset) {
    const bytes = element * vector, start = element * offset;
    let width = bytes, sectors = 0;
    while (start % width) width /= 2;
    const distinct = new Set();
    for (let part = 0; part < bytes; part += width) {
      const touched = new Set();
      for (let lane = 0; lane < 32; lane++) touched.add(Math.floor((start + lane * stride * bytes + part) / 32));
      sectors += touched.size;
      touched.forEach((sector) => distinct.add(sector));
    }
    return { width, requests: bytes / width, sectors, distinct: distinct.size, asked: 32 * bytes };
  }

  const words = (n, noun) => n + " " + noun + (n === 1 ? "" : "s");

  function say(element, vector, c) {
    const moved = c.distinct * SECTOR, used = 100 * c.asked / moved;
    let text = words(c.requests, "request") + " of " + words(c.width, "byte") + " a lane, " + c.sectors + " sectors";
    if (c.requests > 1) text += ", " + c.distinct + " of them different";
    text += ". " + c.asked + " bytes asked for, " + moved + " moved: " + Number(used.toPrecision(3)) + " % used.";
    if (c.width < element * vector) text += " The vector of " + element * vector + " bytes is misaligned, so it comes in pieces.";
    return text;
  }

  const svg = root.querySelector(".qt-picture svg"), box = svg.parentElement;
  const sliders = [...root.querySelectorAll("input[type=range]")];
  const outputs = [...root.querySelectorAll("output")];
  const sentence = root.querySelector(".qt-caption p");

  function add(name, attributes, text) {
    const node = document.createElementNS(svg.namespaceURI, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    svg.appendChild(node);
  }

  function draw(element, vector, stride, offset) {
    const bytes = element * vector, wide = Math.max(280, box.clientWidth), byte = (wide - LEFT - 8) / LINE;
    const spans = Array.from({ length: LANES }, (_, lane) => (offset + lane * stride * vector) * element);
    const lines = new Map(), touched = new Set();
    spans.forEach((from, lane) => {
      for (let at = from; at < from + bytes; at++) {
        touched.add(Math.floor(at / SECTOR));
        const line = Math.floor(at / LINE), held = lines.get(line) || [lane, lane];
        lines.set(line, [held[0], lane]);
      }
    });
    const pitch = Math.min(26, (HEIGHT - TOP) / lines.size);
    svg.replaceChildren();
    svg.setAttribute("viewBox", "0 0 " + wide + " " + HEIGHT);
    svg.setAttribute("width", wide);
    add("text", { x: 0, y: 11 }, "lanes");
    for (let k = 0; k < 4; k++) add("text", { x: LEFT + k * SECTOR * byte + 2, y: 11 }, "+" + k * SECTOR);
    [...lines.entries()].forEach(([line, [first, last]], row) => {
      const y = TOP + row * pitch;
      for (let k = 0; k < 4; k++) {
        const role = touched.has(line * 4 + k) ? "r" : "-";
        add("rect", { "data-r": role, x: LEFT + k * SECTOR * byte + 1, y, width: SECTOR * byte - 2, height: pitch - 2 });
      }
      for (let lane = first; lane <= last; lane++) {
        const from = Math.max(spans[lane], line * LINE), to = Math.min(spans[lane] + bytes, (line + 1) * LINE);
        const gap = (to - from) * byte > 4 ? 2 : 0.5, inset = pitch > 12 ? 3 : 1.5;
        add("rect", { "data-ink": lane % 2 ? "odd" : "even", x: LEFT + (from % LINE) * byte + gap / 2, y: y + inset,
          width: Math.max(0.6, (to - from) * byte - gap), height: pitch - 2 - 2 * inset });
        if ((to - from) * byte >= 18 && pitch >= 16) {
          add("text", { x: LEFT + ((from % LINE) + (to - from) / 2) * byte, y: y + pitch / 2 + 3, "text-anchor": "middle" }, lane);
        }
      }
      // Where lines are close together every second one is named.
      if (pitch >= 12 || row % 2 === 0) add("text", { x: 0, y: y + pitch / 2 + 3 }, first === last ? first : first + "–" + last);
    });
  }

  function show() {
    const element = data.elements[sliders[0].value];
    const most = data.vectors.filter((n) => n * element <= WIDEST).length - 1;
    sliders[1].max = most;
    if (sliders[1].value > most) sliders[1].value = most;
    const vector = data.vectors[sliders[1].value], stride = 1 + Number(sliders[2].value), offset = Number(sliders[3].value);
    const texts = [words(element, "byte"), words(vector, "element"), words(stride, "vector"), words(offset, "element")];
    sliders.forEach((slider, k) => {
      slider.setAttribute("aria-valuetext", texts[k]);
      outputs[k].textContent = texts[k];
    });
    sentence.textContent = say(element, vector, count(element, vector, stride, offset));
    draw(element, vector, stride, offset);
  }

  for (const slider of sliders) slider.addEventListener("input", show);
  new ResizeObserver(() => box.clientWidth && show()).observe(box);
  show();
});
