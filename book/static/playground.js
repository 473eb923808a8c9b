// The layout playground: two forms, their pictures, and an address that holds what is typed. The numbers come from layout.js.
(function () {
  "use strict";
  const L = window.Layouts, TINTS = 8;

  // Ready to open. The second list has the layouts of the book's kernels; a test compares them with the package.
  const LAYOUTS = [
    ["Rows, as numpy has them", { a: "(4,8):(8,1)" }],
    ["Columns", { a: "(4,8):(1,4)" }],
    ["Blocks of 4 x 2 (chapter 2)", { a: "(4,(2,4)):(2,(1,8))" }],
    ["Every second column (chapter 2)", { a: "(4,8):(8,1)", op: "composition", b: "(4,4):(1,8)" }],
    ["Cut into tiles (chapter 2)", { a: "(4,8):(8,1)", op: "zipped_divide", b: "(2,4)" }],
    ["The gaps that a layout leaves", { a: "4:2", op: "complement", b: "24" }],
    ["A block repeated", { a: "(2,2):(1,2)", op: "blocked_product", b: "(2,3):(3,1)" }],
    ["Threads times values, before it is turned round (chapter 2)", { a: "(2,4):(4,1)", op: "raked_product", b: "(2,2):(2,1)" }],
    ["The diagonal of 8 x 8", { a: "8:9" }],
    ["One row seen four times", { a: "(4,8):(0,1)" }],
    ["A swizzle of 8 x 32", { a: "(8,32):(32,1)", op: "swizzle", b: "3,2,3" }],
  ];
  const COPIES = [
    ["Chapter 2: patches of 2 x 2", { x: "(4,8):(8,1)", t: "(2,4):(4,1)", v: "(2,2):(2,1)" }],
    ["Chapter 2: TileCopy", { x: "(8,128):(128,1)", t: "(4,8):(8,1)", v: "(1,4)", tile: "4,64" }],
    ["Chapter 2: the fault, values wider than the atom", { x: "(8,128):(128,1)", t: "(4,8):(8,1)", v: "(1,8)", tile: "4,64", bits: "128" }],
    ["Chapter 2: a column-major tensor", { x: "(16,4):(1,16)", t: "(4,4)", v: "(4,1)" }],
    ["Chapter 3: vectorised, not coalesced", { x: "(1,512):(512,1)", t: "(1,32):(32,1)", v: "(1,16)", bits: "128" }],
    ["kernels/copy.py: CopyVectors, float32, rows of 1024", { x: "(8,1024):(1024,1)", t: "(4,32):(32,1)", v: "(1,4)", tile: "4,512" }],
    ["kernels/copy.py: CopyVectors(vector_bytes=0), float32, rows of 1024", { x: "(8,1024):(1024,1)", t: "(4,32):(32,1)", v: "(1,1)", tile: "4,512" }],
    ["kernels/copy.py: CopyVectors, bfloat16, rows of 1000", { x: "(6,1000):(1000,1)", t: "(4,32):(32,1)", v: "(1,8)", tile: "4,1024", item: "2", at: "1,0" }],
    ["kernels/copy.py: CopyVectors, float32, rows of 77", { x: "(6,77):(77,1)", t: "(4,32):(32,1)", v: "(1,1)", tile: "4,512", at: "1,0" }],
    ["kernels/softmax.py: SoftmaxVectors, float32, rows of 4096", { x: "(4,4096):(4096,1)", t: "(1,256)", v: "(1,4)", tile: "1,4096" }],
    ["kernels/softmax.py: SoftmaxRows, float32, rows of 256", { x: "(32,256):(256,1)", t: "(16,8):(8,1)", v: "(1,4)", tile: "16,256" }],
    ["kernels/softmax.py: SoftmaxRows, float32, rows of 77", { x: "(20,77):(77,1)", t: "(16,8):(8,1)", v: "(1,1)", tile: "16,80", at: "1,0" }],
    ["kernels/softmax.py: SoftmaxAsync, float32, rows of 256, its shared memory", { x: "(16,256):(256,1)", t: "(16,8):(8,1)", v: "(1,4)", tile: "16,256", mem: "shared" }],
    ["Chapter 5: columns of shared memory, bank conflicts", { x: "(32,32):(32,1)", t: "(32,1)", v: "(1,1)", tile: "32,32", mem: "shared" }],
    ["Chapter 5: the same with a pitch of 33", { x: "(32,32):(33,1)", t: "(32,1)", v: "(1,1)", tile: "32,32", mem: "shared" }],
    ["The same with a swizzle instead", { x: "(32,32):(32,1)", t: "(32,1)", v: "(1,1)", tile: "32,32", mem: "shared", swz: "5,0,5" }],
  ];
  const DEFAULTS = {
    a: "(4,8):(8,1)", op: "none", b: "", x: "(8,128):(128,1)", t: "(4,8):(8,1)", v: "(1,4)", tile: "", at: "0,0", item: "4",
    mem: "global", bits: "0", base: "0", swz: "", thread: "0", value: "0", warp: "0", i: "0",
  };
  const HALVES = [["a", "op", "b"], ["x", "t", "v", "tile", "at", "item", "mem", "bits", "base", "swz", "thread", "value", "warp", "i"]];
  if (typeof document === "undefined") {
    module.exports = { LAYOUTS, COPIES, DEFAULTS };
    return;
  }

  const element = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const tint = (n) => (n + Math.floor(n / TINTS) * 3) % TINTS;
  const pair = (coord) => (coord.length > 1 ? `(row ${coord[0]}, column ${coord[1]})` : `(${coord[0]})`);
  const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  const MOST_BOXES = 4096, MEMORY = 1024; // of a picture, and of those of the memory beside it
  const narrow = (node) => node.clientWidth > 0 && node.clientWidth < 560;

  // ---- what is typed, and the address -------------------------------------------------------------------------------

  const state = { ...DEFAULTS };
  function readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (![...given.keys()].some((key) => key in DEFAULTS)) return false;
    Object.assign(state, DEFAULTS);
    for (const [key, value] of given) if (key in DEFAULTS) state[key] = value.slice(0, 200);
    return true;
  }
  function addressOf() {
    const words = Object.keys(DEFAULTS).filter((key) => state[key] !== DEFAULTS[key])
      .map((key) => `${key}=${encodeURIComponent(state[key]).replace(/%2C/g, ",").replace(/%3A/g, ":")}`);
    return "#" + (words.join("&") || "a=" + DEFAULTS.a);
  }

  // ---- controls -----------------------------------------------------------------------------------------------------

  const controls = {};
  function field(key, label, kind = "text", choices = []) {
    const id = `pg-${key}`;
    const input = kind === "select" ? element("select", { id }, ...choices.map(([value, words]) => element("option", { value }, words)))
      : element("input", { id, type: kind, spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
    controls[key] = input;
    input.addEventListener(kind === "select" ? "change" : "input", () => change({ [key]: input.value }));
    return element("div", { class: `pg-field pg-${kind}` }, element("label", { for: id }, label), input);
  }
  function opener(id, label, list, keys) {
    const choices = [element("option", { value: "" }, "…"), ...list.map(([name], i) => element("option", { value: i }, name))];
    const select = element("select", { id }, ...choices);
    select.addEventListener("change", () => {
      if (select.value === "") return;
      const fresh = Object.fromEntries(keys.map((key) => [key, DEFAULTS[key]]));
      change({ ...fresh, ...list[select.value][1] });
    });
    return element("div", { class: "pg-field pg-open" }, element("label", { for: id }, label), select);
  }
  function slider(key, label) {
    const input = element("input", { id: `pg-${key}`, type: "range", min: 0, max: 0, value: 0 });
    const output = element("output", { for: `pg-${key}` }, "0");
    controls[key] = input;
    input.addEventListener("input", () => change({ [key]: input.value }));
    return element("div", { class: "pg-field pg-range" }, element("label", { for: `pg-${key}` }, label), input, output);
  }
  function copying(button, words, get) {
    button.addEventListener("click", async () => {
      const isCopied = await navigator.clipboard?.writeText(get()).then(() => true, () => false); // which plain http has not
      button.textContent = isCopied ? "Copied" : "Your browser does not copy it";
      setTimeout(() => { button.textContent = words; }, 1500);
    });
  }
  function codeBox(label) {
    const code = element("code"), button = element("button", { type: "button" }, "Copy");
    copying(button, "Copy", () => code.textContent);
    const box = element("details", { class: "pg-code" }, element("summary", {}, label), button, element("pre", { tabindex: "0" }, code));
    return { box, show: (lines) => { code.textContent = lines.join("\n"); } };
  }
  function picture(label) {
    const node = element("div", { class: "pg-picture", tabindex: "0", role: "group", "aria-label": label });
    return node;
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------

  function drawing(width, height, label, body) {
    return `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${label}">${body}</svg>`;
  }
  const box = (x, y, w, h, kind, index) => `<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="2" class="${kind}"${index === undefined ? "" : ` data-i="${index}"`}/>`;
  const word = (x, y, text, kind = "") => `<text x="${x}" y="${y}"${kind && ` class="${kind}"`}>${text}</text>`;

  // A grid of boxes, row by row; `cell(r, c)` gives [class, lines of text].
  function grid(rows, columns, label, cell, nameOfRow = (r) => r) {
    const pitch = columns <= 16 ? 38 : columns <= 32 ? 22 : 14, roomy = columns <= 32;
    const sample = cell(0, 0)[1].length, height = roomy ? (sample > 1 ? 34 : 26) : 14, left = 34, top = 20;
    let body = "";
    for (let c = 0; c < columns; c += roomy ? 1 : 8) body += word(left + c * pitch + pitch / 2, 10, c, "soft");
    for (let r = 0; r < rows; r++) {
      const y = top + r * height;
      if (roomy || r % 4 === 0) body += word(left - 16, y + height / 2, nameOfRow(r), "soft");
      for (let c = 0; c < columns; c++) {
        const [kind, lines] = cell(r, c), x = left + c * pitch;
        body += box(x + 1, y + 1, pitch - 2, height - 2, kind, r * columns + c);
        if (roomy) lines.forEach((line, i) => { body += word(x + pitch / 2, y + (height * (i + 1)) / (lines.length + 1) + (lines.length > 1 ? (i ? 3 : -3) : 0), line); });
      }
    }
    return drawing(left + columns * pitch + 2, top + rows * height + 2, label, body);
  }

  // Boxes answer to a pointer and to arrow keys; `chosen(i)` is called with the number of a box.
  function answering(node, columnsOf, countOf, chosen) {
    node.addEventListener("click", (event) => {
      const i = event.target.getAttribute && event.target.getAttribute("data-i");
      if (i !== null && i !== undefined) chosen(Number(i));
    });
    node.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columnsOf(), ArrowDown: columnsOf() }[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const at = node.querySelector(".at");
      const next = at ? Number(at.getAttribute("data-i")) + step : Number(node.querySelector("[data-i]").getAttribute("data-i"));
      if (next < 0 || next >= countOf()) return;
      chosen(next);
      const now = node.querySelector(".at");
      if (now) now.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }
  function mark(node, at, same = () => false) {
    for (const rect of node.querySelectorAll("[data-i]")) {
      const i = Number(rect.getAttribute("data-i"));
      rect.classList.toggle("at", i === at);
      rect.classList.toggle("own", i !== at && same(i));
    }
  }

  // What a half says of its text: what it is, or what is wrong with it, in the same place; the picture of the last good text
  // then stays, dimmed, and says so.
  function saying() {
    const error = element("p", { class: "pg-error", role: "alert" }), kept = element("p", { class: "pg-kept" });
    return { error, kept, says: element("div", { class: "pg-says" }) };
  }
  function wrong(half, shown, message) {
    half.says.style.minHeight = `${half.says.getBoundingClientRect().height}px`; // nothing below moves
    half.says.lastChild.hidden = true;
    half.error.textContent = message;
    half.kept.textContent = half.good ? `Below is still the picture of ${half.good}.` : "";
    shown.classList.toggle("stale", Boolean(half.good));
  }
  function right(half, shown, text) {
    half.good = text;
    half.says.style.minHeight = "";
    half.says.lastChild.hidden = false;
    half.error.textContent = half.kept.textContent = "";
    shown.classList.remove("stale");
  }
  // ---- first half: a layout -----------------------------------------------------------------------------------------

  const first = {
    ...saying(),
    result: element("p", { class: "pg-result" }),
    shown: element("div"),
    memoryPart: element("p", { class: "pg-part" }),
    sentence: element("p", { class: "pg-sentence", "aria-live": "polite" }),
    grid: picture("The layout: from a coordinate to its offset"),
    memory: picture("The memory: from an offset to who lies there"),
    sides: [picture("B of the composition: from a number to a number of A"), picture("A of the composition: from a number to its offset")],
    beside: element("div", { class: "pg-sides", hidden: "" }),
    code: codeBox("CuTe code"),
    at: 0,
  };

  function showLayout() {
    const takes = (L.OPERATIONS[state.op] || L.OPERATIONS.none)[1];
    controls.b.parentNode.hidden = takes === null;
    controls.b.previousElementSibling.textContent = { number: "n, the size to fill", swizzle: "Swizzle: bits, base, shift" }[takes] || "B";
    let answer;
    try {
      answer = L.operate(state.op, state.a, state.b);
      if (L.size(answer.layout) > MOST_BOXES) throw new L.LayoutError(`${L.size(answer.layout)} elements are too many for a picture: at most ${MOST_BOXES}`);
    } catch (error) {
      if (!(error instanceof L.LayoutError)) throw error;
      wrong(first, first.shown, error.message);
      return;
    }
    const { layout, swizzle, isOutside } = answer, count = L.size(layout);
    const parts = L.modes(layout), rows = L.rank(layout) > 1 ? L.size(parts[0]) : 1, columns = count / rows;
    const offsetOf = (n) => { const at = L.offset(layout, n); return swizzle ? L.swizzle(swizzle, at) : at; };
    const reached = new Map();
    for (let n = 0; n < count; n++) {
      const at = offsetOf(n), here = reached.get(at);
      if (here) here.push(n);
      else reached.set(at, [n]);
    }
    const [low, high] = swizzle ? [0, Math.max(...reached.keys())] : L.reach(layout);
    const end = high + 1, unique = reached.size === count, whole = end - low === count;
    const facts = [many(count, "element"), `offsets ${low} to ${high}`];
    facts.push(unique ? (whole ? "every offset once" : "no offset twice, some never") : "some offset more than once");
    const sentences = [facts.join(", ") + "."];
    if (low < 0) sentences.push("CuTe takes a negative stride: the pointer then has to start past the elements that lie before it.");
    if (isOutside) {
      const out = Array.from({ length: count }, (_, n) => n).filter(isOutside).length;
      sentences.push(`The tiler does not divide A: CuTe rounds up to whole tiles, and ${out} of the ${count} elements are outside A. It does not mark them: a kernel needs a predicate. Their boxes are dashed.`);
    }
    const text = `${swizzle ? `Swizzle<${swizzle}> of ` : ""}${L.text(layout)}`;
    first.result.replaceChildren(element("code", {}, text), ` ${sentences.join(" ")}`);
    right(first, first.shown, text);
    // Box i of the grid is row by row; number n of the layout counts down the columns.
    const numberOf = (i) => (i % columns) * rows + Math.floor(i / columns), boxOf = (n) => (n % rows) * columns + Math.floor(n / rows);
    const tintOf = (at) => `t${((at % TINTS) + TINTS) % TINTS}`;
    const across = narrow(first.memory) ? 8 : 16, length = end - low;
    let from = null;
    first.grid.innerHTML = grid(rows, columns, "Rows are mode 0, columns the other modes, each box holds its offset", (r, c) => {
      const number = c * rows + r, place = offsetOf(number);
      return [`${tintOf(place)}${isOutside && isOutside(number) ? " outside" : ""}`, [place]];
    });
    // Draws the memory around an offset, unless it is drawn already.
    const drawMemory = (at) => {
      const start = low + Math.floor((at - low) / MEMORY) * MEMORY, shown = Math.min(MEMORY, end - start);
      if (start === from) return;
      from = start;
      first.memoryPart.textContent = length > MEMORY ? `Offsets ${start} to ${start + shown - 1} of ${low} to ${high}: those around the chosen element.` : "";
      first.memory.innerHTML = grid(Math.ceil(shown / across), across, "The memory, offset by offset, each box with the number of the element in it", (r, c) => {
        const at = start + r * across + c, here = reached.get(at);
        if (at >= start + shown) return ["none", [""]];
        return here ? [tintOf(at), [here.length > 1 ? `${here[0]} +` : here[0]]] : ["empty", [""]];
      }, (r) => start + r * across);
    };
    first.columns = columns;
    first.count = count;
    first.across = across;
    first.inMemory = () => Math.min(MEMORY, end - from);
    const follow = drawSides();
    first.choose = (n) => {
      first.at = n;
      const at = offsetOf(n), r = n % rows, c = Math.floor(n / rows);
      drawMemory(at);
      const shape = L.coordinate(n, layout.shape), others = (reached.get(at) || []).filter((other) => other !== n);
      first.sentence.textContent = `Number ${n} is coordinate ${L.text(shape)}, row ${r} and column ${c} here → offset ${at}` +
        (others.length ? `, where number${others.length > 1 ? "s" : ""} ${others.slice(0, 8).join(", ")} lies too` : "") + (isOutside && isOutside(n) ? ", outside A." : ".");
      mark(first.grid, boxOf(n), (i) => offsetOf(numberOf(i)) === at);
      mark(first.memory, at - from);
      first.sentence.textContent += follow(n) ?? "";
    };
    first.fromBox = (i) => first.choose(numberOf(i));
    first.fromMemory = (place) => {
      const at = from + place, here = reached.get(at);
      if (here) return first.choose(here[0]);
      first.sentence.textContent = `Offset ${at} → nobody lies there.`;
      mark(first.grid, -1);
      mark(first.memory, place);
    };
    first.choose(Math.min(first.at, count - 1));
    first.code.show(answer.code);
  }

  const MOST_BESIDE = 256; // boxes of a picture that stands beside another

  // What a composition is made of, side by side: number n of R is number B(n) of A. Returns what marks n in them; nothing where B
  // is a tuple of tiles, or a picture would be too large.
  function drawSides() {
    first.beside.hidden = true;
    if (state.op !== "composition") return () => {};
    let layouts;
    try {
      layouts = [state.b, state.a].map((text) => L.parseLayout(text));
    } catch {
      return () => {};
    }
    const shapes = layouts.map((layout) => {
      const count = L.size(layout), rows = L.rank(layout) > 1 ? L.size(L.modes(layout)[0]) : 1;
      return { layout, count, rows, columns: count / rows };
    });
    if (shapes.some(({ count }) => count > MOST_BESIDE)) return () => {};
    first.beside.hidden = false;
    first.wide = shapes.map(({ columns }) => columns);
    first.many = shapes.map(({ count }) => count);
    const [b, a] = shapes, goesTo = (n) => L.offset(b.layout, n);
    shapes.forEach(({ layout, rows, columns }, i) => {
      first.sides[i].innerHTML = grid(rows, columns, i ? "A: each box holds its offset" : "B: each box holds a number of A", (r, c) => {
        const at = L.offset(layout, c * rows + r);
        return [`t${((at % TINTS) + TINTS) % TINTS}`, [at]];
      });
    });
    const boxOf = ({ rows, columns }, n) => (n % rows) * columns + Math.floor(n / rows);
    const numberOf = ({ rows, columns }, i) => (i % columns) * rows + Math.floor(i / columns);
    first.fromB = (i) => first.choose(numberOf(b, i));
    first.fromA = (i) => {
      const wanted = numberOf(a, i), n = Array.from({ length: b.count }, (_, n) => n).find((n) => goesTo(n) === wanted);
      if (n !== undefined) return first.choose(n);
      first.sentence.textContent = `Number ${wanted} of A is not in R: B leads nowhere to it.`;
      mark(first.sides[1], i);
      for (const node of [first.sides[0], first.grid, first.memory]) mark(node, -1);
    };
    return (n) => {
      mark(first.sides[0], boxOf(b, n));
      mark(first.sides[1], goesTo(n) < a.count ? boxOf(a, goesTo(n)) : -1);
      return ` B leads it to number ${goesTo(n)} of A.`;
    };
  }

  // ---- second half: threads and values ------------------------------------------------------------------------------

  const second = {
    ...saying(),
    shown: element("div"),
    facts: element("ul", { class: "pg-facts" }),
    sentence: element("p", { class: "pg-sentence", "aria-live": "polite" }),
    tile: picture("The tile: which thread holds which element"),
    holds: element("div", { class: "pg-table", tabindex: "0", role: "region", "aria-label": "What the chosen thread holds" }),
    request: element("p", { class: "pg-sentence", "aria-live": "polite" }),
    memory: picture("The memory that one request touches"),
    code: codeBox("CuTe code of the whole copy"),
  };

  const numbers = (source, what) => {
    const found = source.trim().replace(/^\(|\)$/g, "");
    if (!/^\d+(\s*,\s*\d+)?\s*,?$/.test(found)) throw new L.LayoutError(`${what}: one or two numbers`);
    return found.split(",").filter((part) => part.trim()).map(Number);
  };

  function showCopy() {
    const shared = state.mem === "shared";
    controls.swz.parentNode.hidden = !shared;
    const part = (what, run) => { try { return run(); } catch (error) { if (error instanceof L.LayoutError) error.message = `${what}: ${error.message}`; throw error; } };
    let spec, copy;
    try {
      spec = {
        tensor: part("Tensor", () => L.parseLayout(state.x)), thread: part("Thread layout", () => L.parseLayout(state.t)), value: part("Value layout", () => L.parseLayout(state.v)),
        tile: state.tile.trim() ? numbers(state.tile, "Tile") : null, block: numbers(state.at, "Tile number"),
        item: Number(state.item), bits: Number(state.bits), base: /^\d{1,4}$/.test(state.base.trim()) ? Number(state.base) : 0, space: state.mem,
        swizzle: shared && state.swz.trim() ? part("Swizzle", () => L.parseSwizzle(state.swz)) : null,
      };
      if (![1, 2, 4, 8].includes(spec.item)) throw new L.LayoutError("an element has 1, 2, 4 or 8 bytes");
      copy = L.tiledCopy(spec);
    } catch (error) {
      if (!(error instanceof L.LayoutError)) throw error;
      wrong(second, second.shown, error.message);
      return;
    }
    right(second, second.shown, `tensor ${L.text(spec.tensor)}, threads ${L.text(spec.thread)}, values ${L.text(spec.value)}, tile ${L.text(copy.extents)}`);
    controls.tile.placeholder = `${copy.unit.join(",")}, by threads and values`;
    second.error.textContent = copy.problem ? `A copy of ${spec.bits} bits is refused: ${copy.problem}. Below, ${8 * copy.bytes} bits.` : "";
    const per = copy.held[0].length, rows = copy.extents.length > 1 ? copy.extents[0] : 1, columns = copy.extents.reduce((a, b) => a * b, 1) / rows;
    const boxOf = (e) => (e.tile.length > 1 ? e.tile[0] * columns + e.tile[1] : e.tile[0]);
    const holder = new Map();
    copy.held.forEach((mine, t) => mine.forEach((e, k) => { if (!holder.has(boxOf(e))) holder.set(boxOf(e), [t, k]); }));
    bound("thread", copy.threads);
    bound("value", per);
    bound("warp", copy.warps);
    bound("i", copy.instructions);
    const t = Number(controls.thread.value), k = Number(controls.value.value), e = copy.held[t][k];
    second.tile.innerHTML = grid(rows, columns, "Each box an element, with its thread and value", (r, c) => {
      const [t, k] = holder.get(r * columns + c) || [-1, -1];
      if (t < 0) return ["empty", ["", ""]];
      return [`t${tint(t)}${copy.held[t][k].inside ? "" : " outside"}`, columns <= 16 ? [`T${t}`, `V${k}`] : [t, k]];
    });
    second.columns = columns;
    second.count = rows * columns;
    second.vector = copy.vector;
    second.fromBox = (i) => { const [t, k] = holder.get(i) || [0, 0]; change({ thread: String(t), value: String(k) }); };

    mark(second.tile, boxOf(e), (i) => (holder.get(i) || [])[0] === t);
    second.sentence.textContent = `(thread ${t}, value ${k}) → ${pair(e.tile)} of the tile, ${pair(e.coord)} of the tensor → ` +
      (e.inside ? `offset ${e.offset}, byte ${e.address}.` : "outside: its predicate is false.");
    const cells = copy.held[t].slice(0, 64).map((one, i) => `<tr><td>${i}</td><td>${one.coord.join(", ")}</td><td>${one.offset}</td><td>${one.address}</td><td>${Math.floor(i / copy.vector)}</td><td>${one.inside ? "true" : "false"}</td></tr>`);
    second.holds.innerHTML = `<table><caption>Thread ${t}${per > 64 ? ", its first 64 values" : ""}</caption><thead><tr><th scope="col">value</th><th scope="col">coordinate</th><th scope="col">offset</th><th scope="col">byte</th><th scope="col">instruction</th><th scope="col">predicate</th></tr></thead><tbody>${cells.join("")}</tbody></table>`;
    showFacts(spec, copy, shared);
    showRequest(spec, copy, shared, t);
    second.code.show(L.codeOfCopy({ ...spec, space: state.mem }, copy));
  }

  function bound(key, count) {
    const input = controls[key], at = Math.min(Math.max(0, Math.floor(Number(state[key])) || 0), count - 1);
    input.max = count - 1;
    input.value = at;
    input.disabled = count < 2;
    input.parentNode.querySelector("output").textContent = `${at} of ${count}`;
    input.setAttribute("aria-valuetext", `${at} of ${count}`);
  }

  function showFacts(spec, copy, shared) {
    let moved = 0, least = 0, asked = 0;
    for (let w = 0; w < copy.warps; w++) {
      for (let i = 0; i < copy.instructions; i++) {
        const lanes = L.request(copy, w, i);
        if (!lanes.length) continue;
        const cost = shared ? L.wavefronts(lanes, copy.bytes) : L.sectors(lanes, copy.bytes);
        moved += shared ? cost.wavefronts : cost.sectors;
        least += cost.least;
        asked += lanes.length * copy.bytes;
      }
    }
    const unit = shared ? "wavefront" : "sector";
    const lines = [
      ["TV layout", `${L.text(copy.tv)}, which covers ${L.text(copy.unit)} of the tile's ${L.text(copy.extents)}`],
      ["Each thread", `${many(copy.values, "value")}${copy.held[0].length > copy.values ? ` x ${copy.held[0].length / copy.values} repeats` : ""}, in ${many(copy.instructions, "instruction")} of ${many(copy.bytes, "byte")}`],
      ["Vector width", `up to ${8 * copy.widest * spec.item} bits${copy.limit ? `: ${copy.limit}` : ", the widest there is"}`],
      ["The whole tile", `${many(asked, "byte")} in ${many(moved, unit)}; ${least} would do${moved > 1.05 * least ? `, so ${(moved / least).toPrecision(2)} times the least` : ""}`],
      ["Tile", `${L.text(copy.block)} of ${L.text(copy.places)}; ` + (copy.skipped || copy.straddles
        ? `${many(copy.skipped, "vector")} outside the tensor, switched off by a predicate` + (copy.straddles ? `; ${copy.straddles} lie across its edge, so a narrower copy is needed` : "")
        : copy.ragged ? "all inside, but other tiles of this tensor need predicates" : "all inside, no predicate needed")],
    ];
    second.facts.replaceChildren(...lines.map(([name, words]) => element("li", {}, element("b", {}, `${name}: `), words)));
  }

  // Lines of 128 bytes with the lanes that touch them; on a phone each line is folded in two.
  function showRequest(spec, copy, shared, thread) {
    const warp = Number(controls.warp.value), instruction = Number(controls.i.value);
    const lanes = L.request(copy, warp, instruction), size = copy.bytes;
    const name = `Warp ${warp}, instruction ${instruction}`;
    if (!lanes.length) {
      second.request.textContent = `${name}: every predicate is false, and nothing is asked for.`;
      second.memory.replaceChildren();
      return;
    }
    const who = `${name}: ${many(lanes.length, "lane")} ${lanes.length > 1 ? "ask" : "asks"} for ${many(size, "byte")}${lanes.length > 1 ? " each" : ""}`;
    if (shared) {
      const cost = L.wavefronts(lanes, size);
      second.request.textContent = `${who}. ${many(cost.wavefronts, "wavefront")}` + (cost.wavefronts > cost.least
        ? `, where ${cost.least} would do: ${cost.fullest} different words lie in bank ${cost.bank}.` : ": no bank is asked for two words at a time.");
    } else {
      const cost = L.sectors(lanes, size);
      const used = Math.round((100 * cost.least) / cost.sectors);
      second.request.textContent = `${who}, in ${many(cost.sectors, "sector")} of 32 bytes. ` + (cost.sectors > cost.least
        ? `${cost.least} would do: ${used} % of the traffic is needed.` : "No fewer would do.");
    }
    const across = narrow(second.memory) ? 64 : 128, perByte = narrow(second.memory) ? 4.1 : 5, left = narrow(second.memory) ? 40 : 58, height = 24;
    const touched = new Map();
    for (const one of lanes) {
      for (let b = one.address; b < one.address + size; b++) {
        const row = Math.floor(b / across), mine = touched.get(row) || touched.set(row, new Map()).get(row);
        mine.set(b, [...(mine.get(b) || []), one]);
      }
    }
    const rows = [...touched.keys()].sort((p, q) => p - q), shown = rows.slice(0, 32), top = 20;
    let body = "";
    for (let b = 0; b < across; b += 32) body += word(left + (b + 16) * perByte, 10, shared ? (across === 128 ? `banks ${b / 4} to ${b / 4 + 7}` : `+${b} bytes`) : `+${b} bytes`, "soft");
    shown.forEach((row, r) => {
      const y = top + r * height;
      body += word(left / 2, y + height / 2, row * across, "soft");
      for (let b = 0; b < across; b += 32) {
        const start = row * across + b, mine = touched.get(row);
        const used = Array.from({ length: 32 }, (_, k) => mine.has(start + k)).some(Boolean);
        body += box(left + b * perByte + 1, y + 1, 32 * perByte - 2, height - 2, used && !shared ? "sector" : "line");
      }
      // Bars: neighbouring bytes of the same lanes.
      const bytes = [...touched.get(row).keys()].sort((p, q) => p - q);
      for (let n = 0; n < bytes.length;) {
        const here = touched.get(row).get(bytes[n]), key = here.map((one) => one.lane).join();
        let m = n + 1;
        while (m < bytes.length && bytes[m] === bytes[m - 1] + 1 && touched.get(row).get(bytes[m]).map((one) => one.lane).join() === key) m++;
        const x = left + (bytes[n] % across) * perByte, w = (m - n) * perByte;
        const own = here.some((one) => one.thread === thread);
        body += `<rect x="${(x + 0.5).toFixed(1)}" y="${y + 4}" width="${(w - 1).toFixed(1)}" height="${height - 8}" class="lane ${here[0].lane % 2 ? "odd" : "even"}${own ? " own" : ""}" data-t="${here[0].thread}"/>`;
        const label = here.length > 1 ? `${here[0].lane}+` : String(here[0].lane);
        if (label.length * 6.5 <= w + 1) body += word((x + w / 2).toFixed(1), y + height / 2, label, "onbar");
        n = m;
      }
    });
    const label = "Each row a line of memory with the byte it starts at, each bar the bytes of a lane";
    second.memory.innerHTML = drawing(left + across * perByte + 2, top + shown.length * height + 2, label, body);
    if (rows.length > shown.length) second.request.textContent += ` ${many(rows.length - shown.length, "more row")} not drawn.`;
  }

  // ---- together -----------------------------------------------------------------------------------------------------

  function change(fresh) {
    Object.assign(state, fresh);
    const touched = (keys) => keys.some((key) => key in fresh);
    for (const key of Object.keys(fresh)) if (controls[key] && controls[key].type !== "range" && controls[key].value !== state[key]) controls[key].value = state[key];
    if (touched(HALVES[0])) showLayout();
    if (touched(HALVES[1])) showCopy();
    try {
      history.replaceState(null, "", addressOf());
    } catch {
      // A browser that is asked too often for a new address refuses; the next change brings it up to date.
    }
  }
  function show() {
    for (const [key, input] of Object.entries(controls)) if (input.type !== "range") input.value = state[key];
    showLayout();
    showCopy();
  }

  function start(one, two) {
    const operations = Object.entries(L.OPERATIONS).map(([name, [words]]) => [name, words]);
    one.replaceChildren(
      element("div", { class: "pg-form" }, opener("pg-open-a", "Open", LAYOUTS, HALVES[0]), field("a", "A"), field("op", "Operation", "select", operations), field("b", "B")),
      first.says, first.shown,
    );
    first.says.append(first.error, first.kept, first.result);
    first.sides.forEach((node, i) => first.beside.append(element("div", {}, element("div", { class: "pg-label" }, ["B", "A"][i]), node)));
    first.shown.append(
      first.sentence, first.beside,
      element("div", { class: "pg-label" }, "Coordinate → offset"), first.grid,
      element("div", { class: "pg-label" }, "Offset → number of the element"), first.memoryPart, first.memory, first.code.box,
    );
    const link = element("button", { type: "button" }, "Copy a link to this");
    copying(link, "Copy a link to this", () => location.href);
    two.replaceChildren(
      element("div", { class: "pg-form" },
        opener("pg-open-b", "Open", COPIES, HALVES[1]), field("x", "Tensor"), field("t", "Thread layout"), field("v", "Value layout"),
        field("tile", "Tile"), field("at", "Which tile"),
        field("item", "Bytes of an element", "select", [["1", "1"], ["2", "2, as bfloat16"], ["4", "4, as float32"], ["8", "8"]]),
        field("mem", "Memory", "select", [["global", "global"], ["shared", "shared"]]),
        field("bits", "Bits of the copy atom", "select", [["0", "the widest that fits"], ["8", "8"], ["16", "16"], ["32", "32"], ["64", "64"], ["128", "128"]]),
        field("base", "Starts at byte"), field("swz", "Swizzle: bits, base, shift"), link),
      second.says, second.shown,
    );
    second.says.append(second.error, second.kept, second.facts);
    second.shown.append(
      element("div", { class: "pg-label" }, "Who holds what: above the thread, below which of its values"),
      element("div", { class: "pg-sliders" }, slider("thread", "Thread"), slider("value", "Value")), second.sentence, second.tile, second.holds,
      element("div", { class: "pg-label" }, "What one request touches"),
      element("div", { class: "pg-sliders" }, slider("warp", "Warp"), slider("i", "Instruction")), second.request, second.memory, second.code.box,
    );
    answering(first.grid, () => first.columns, () => first.count, (i) => first.fromBox(i));
    answering(first.memory, () => first.across, () => first.inMemory(), (i) => first.fromMemory(i));
    first.sides.forEach((node, i) => answering(node, () => first.wide[i], () => first.many[i], (box) => [first.fromB, first.fromA][i](box)));
    // Where A, B and R stand together, a number under a mouse that moves is followed through all of them.
    for (const [node, name] of [[first.grid, "fromBox"], [first.memory, "fromMemory"], [first.sides[0], "fromB"], [first.sides[1], "fromA"]]) {
      node.addEventListener("pointermove", (event) => {
        const was = first.mouse;
        first.mouse = `${event.clientX} ${event.clientY}`;
        if (first.beside.hidden || event.pointerType !== "mouse" || first.mouse === was) return;
        const i = event.target.getAttribute("data-i");
        if (i && !event.target.classList.contains("at")) first[name](Number(i));
      });
    }
    answering(second.tile, () => second.columns, () => second.count, (i) => second.fromBox(i));
    second.memory.addEventListener("click", (event) => {
      const t = event.target.getAttribute("data-t");
      if (t !== null) change({ thread: t, value: String(Number(controls.i.value) * second.vector) });
    });
    readAddress();
    show();
    addEventListener("hashchange", () => { if (readAddress()) show(); });
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; show(); } });
    one.dataset.ready = two.dataset.ready = "";
  }

  const begin = () => {
    const one = document.getElementById("layout-algebra"), two = document.getElementById("threads-and-values");
    if (one && two && !("ready" in one.dataset)) start(one, two);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
