// Where recorded kernels lie under the roof, for an operation, a type, N and rows. Called with its root and what
// Roofline.data() gives.
(function (root, data) {
  "use strict";

  const HEIGHT = 300, LEFT = 62, RIGHT = 14, TOP = 26, BOTTOM = 44, X = [-3, 7], Y = [2, 5];

  // What follows from a size: operations a byte, the GFLOP/s that its ceiling and the roof allow, and those reached.
  function facts(operations, M, N, bytes, ceiling, speeds, peak) {
    const intensity = operations * M * N / bytes, allowed = ceiling * intensity;
    return { intensity, allowed: Math.min(allowed, peak), bound: allowed < peak ? "memory" : "arithmetic",
      reached: speeds.map((speed) => (speed === null ? null : speed * intensity)) };
  }

  const whole = (x) => Math.round(x).toLocaleString("en-US");
  const short = (x, digits) => String(Number(x.toPrecision(digits)));

  function say(operation, type, N, M, row, found) {
    return operation + ", " + type + ", " + whole(M) + " rows of " + whole(N) + ": " + data.steps[operation] +
      " operations and " + short(row[0] / M / N, 3) + " bytes an element, " + short(found.intensity, 3) +
      " operations a byte. The fastest plain kernel with the same reads and writes moves " + whole(row[1]) + " GB/s, which allows " +
      whole(found.allowed) + " GFLOP/s: " + short(100 * found.allowed / data.peak, 2) +
      " % of what the arithmetic units could do. The " + found.bound + " is the bound.";
  }

  const svg = root.querySelector(".qt-picture svg"), box = svg.parentElement, body = root.querySelector("tbody");
  const [operations, types] = root.querySelectorAll("select"), sliders = [...root.querySelectorAll("input[type=range]")];
  const outputs = [...root.querySelectorAll("output")], sentence = root.querySelector(".qt-caption p");

  function make(name, attributes, text) {
    const node = document.createElementNS(svg.namespaceURI, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function draw(type, N, M, row, found) {
    const wide = Math.max(280, box.clientWidth), add = (...what) => svg.appendChild(make(...what));
    const across = (x) => LEFT + (Math.log2(x) - X[0]) / (X[1] - X[0]) * (wide - LEFT - RIGHT);
    const down = (y) => HEIGHT - BOTTOM - (Math.log10(y) - Y[0]) / (Y[1] - Y[0]) * (HEIGHT - TOP - BOTTOM);
    svg.replaceChildren();
    svg.setAttribute("viewBox", "0 0 " + wide + " " + HEIGHT);
    svg.setAttribute("width", wide);
    add("text", { x: 0, y: 12 }, "GFLOP/s");
    add("text", { x: wide - RIGHT, y: HEIGHT - 8, "text-anchor": "end" }, "operations a byte");
    for (let k = Y[0]; k <= Y[1]; k++) {
      const y = down(10 ** k);
      add("path", { style: "stroke: var(--qt-line)", d: `M${LEFT} ${y}H${wide - RIGHT}` });
      add("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, whole(10 ** k));
    }
    for (let k = X[0]; k <= X[1]; k += wide < 480 ? 2 : 1) {
      add("text", { x: across(2 ** k), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, k < 0 ? "1/" + 2 ** -k : 2 ** k);
    }
    for (const [speed, dashes] of [[row[1], "none"], [data.sheet, "5 4"]]) {
      const d = `M${across(2 ** X[0])} ${down(speed * 2 ** X[0])}L${across(data.peak / speed)} ${down(data.peak)}H${wide - RIGHT}`;
      add("path", { style: "fill: none; stroke: var(--qt-ink)", "stroke-dasharray": dashes, d });
    }
    const [name, at] = data.landmark, lines = wide < 480 ? ["a 256 x 256", "matrix product"] : [name];
    add("path", { style: "fill: none; stroke: var(--qt-ink)", transform: `translate(${across(at)} ${down(data.peak)})`, d: data.marks[0] });
    lines.forEach((line, i) => add("text", { x: wide - RIGHT, y: down(data.peak) + 22 + 14 * i, "text-anchor": "end" }, line));
    for (const other in data.steps) {
      const held = data.cells[other][[type, N, M].join(" ")];
      if (other === operations.value || !held || held[2] === null) continue;
      const its = facts(data.steps[other], M, N, held[0], held[1], held.slice(2), data.peak);
      add("circle", { "data-r": "p", cx: across(its.intensity), cy: down(its.reached[0]), r: 4 }).append(make("title", {}, other));
    }
    for (let i = data.providers.length - 1; i >= 0; i--) {
      if (found.reached[i] === null) continue;
      add("path", { style: "fill: " + data.colours[i], d: data.marks[i],
        transform: `translate(${across(found.intensity)} ${down(found.reached[i])})` }).append(make("title", {}, data.providers[i]));
    }
  }

  function list(row, found) {
    body.replaceChildren(...data.providers.flatMap((name, i) => {
      if (found.reached[i] === null) return [];
      const line = document.createElement("tr"), head = document.createElement("th"), mark = make("svg", { width: 16, height: 14, "aria-hidden": true });
      head.scope = "row";
      mark.append(make("path", { transform: "translate(8 7)", style: "fill: " + data.colours[i], d: data.marks[i] }));
      head.append(mark, " " + name);
      line.append(head, ...[whole(row[2 + i]), whole(found.reached[i]), Math.round(100 * row[2 + i] / row[1]) + " %"].map((text) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      }));
      return [line];
    }));
  }

  function show() {
    const operation = operations.value, type = types.value, cells = data.cells[operation], N = data.sizes[sliders[0].value];
    const rows = [8192, 16384, 32768].filter((M) => cells[[type, N, M].join(" ")]);
    sliders[1].max = rows.length - 1;
    if (sliders[1].value >= rows.length) sliders[1].value = rows.length - 1;
    const M = rows[sliders[1].value];
    [N, M].forEach((value, i) => {
      outputs[i].textContent = value ? whole(value) : "";
      sliders[i].setAttribute("aria-valuetext", outputs[i].textContent);
    });
    const row = cells[[type, N, M].join(" ")];
    if (!row) {
      sentence.textContent = operation + ", " + type + ", N = " + whole(N) + ": not recorded.";
      return;
    }
    const found = facts(data.steps[operation], M, N, row[0], row[1], row.slice(2), data.peak);
    sentence.textContent = say(operation, type, N, M, row, found);
    list(row, found);
    draw(type, N, M, row, found);
  }

  for (const control of [operations, types, ...sliders]) control.addEventListener("input", show);
  new ResizeObserver(() => box.clientWidth && show()).observe(box);
  show();
});
