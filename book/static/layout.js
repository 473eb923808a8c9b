// The layout algebra of CuTe, and what a warp's copy touches: numbers in, numbers out, no page.
//
// A layout is {shape, stride}, two numbers or two arrays that nest alike. The functions have CuTe's names in JavaScript's
// spelling and give what cutesim/layouts/layout_algebra.py gives, which tests/test_playground.py compares.
(function (home) {
  "use strict";

  class LayoutError extends Error {}
  const refuse = (why) => { throw new LayoutError(why); };
  const isTuple = Array.isArray;
  const isLayout = (x) => x !== null && typeof x === "object" && "shape" in x;
  const asTuple = (x) => (isTuple(x) ? x : [x]);
  const ceilDiv = (a, b) => Math.floor((a + b - 1) / b);
  const quotient = (a, b) => Math.floor(a / b);
  const product = (x) => (isTuple(x) ? x.reduce((all, part) => all * product(part), 1) : x);
  const productEach = (x) => (isTuple(x) ? x.map(product) : x);
  const flat = (x) => (isTuple(x) ? x.flatMap(flat) : [x]);

  // ---- text ---------------------------------------------------------------------------------------------------------

  const text = (x) => (isLayout(x) ? `${text(x.shape)}:${text(x.stride)}` : isTuple(x) ? `(${x.map(text).join(",")})` : x === null ? "_" : String(x));

  function reader(source) {
    const words = source.match(/\d+|[(),:_]|\S/g) || [];
    let at = 0;
    const peek = () => words[at];
    const take = (word) => (words[at] === word ? (at++, true) : false);
    const need = (word) => take(word) || refuse(peek() ? `“${word}” expected where “${peek()}” stands` : `“${word}” is missing at the end`);
    function tuple(leaf) {
      if (!take("(")) return leaf();
      const parts = [tuple(leaf)];
      while (take(",")) if (peek() !== ")") parts.push(tuple(leaf));
      need(")");
      return parts;
    }
    function count() {
      if (!/^\d+$/.test(peek() || "")) refuse(peek() ? `a number expected where “${peek()}” stands` : "a number is missing at the end");
      return Number(words[at++]);
    }
    // A stride may be negative.
    const step = () => (take("-") ? -count() : count());
    const end = () => peek() === undefined || refuse(`“${peek()}” is left over at the end`);
    return { peek, take, tuple, count, step, end, mark: () => at, back: (to) => { at = to; } };
  }

  // "(4,8):(8,1)"; without strides compact and column-major, as cute.make_layout((4, 8)).
  function parseLayout(source) {
    const read = reader(source);
    const layout = oneLayout(read);
    read.end();
    return layout;
  }

  function oneLayout(read) {
    const shape = read.tuple(read.count);
    return makeLayout(shape, read.take(":") ? read.tuple(read.step) : null);
  }

  // A layout, or a tiler: a number or a tuple of numbers, layouts and _ for a mode that stays whole.
  function parseTiler(source) {
    const read = reader(source);
    function one() {
      const start = read.mark();
      if (read.peek() === "_") { read.take("_"); return null; }
      try {
        const shape = read.tuple(read.count);
        if (read.take(":")) return makeLayout(shape, read.tuple(read.step));
        if (!isTuple(shape)) return shape;
      } catch (error) {
        if (read.peek() === undefined || !(error instanceof LayoutError)) throw error;
      }
      read.back(start);
      read.take("(") || refuse(`“${read.peek()}” is no tile`);
      const parts = [one()];
      while (read.take(",")) if (read.peek() !== ")") parts.push(one());
      read.take(")") || refuse("“)” is missing");
      return parts;
    }
    const result = one();
    read.end();
    const bare = (x) => (isTuple(x) ? x.some(bare) : typeof x === "number" && x < 1);
    return bare(result) ? refuse("extents must be at least 1") : result;
  }

  // ---- make, evaluate -----------------------------------------------------------------------------------------------

  const congruent = (a, b) => (isTuple(a) && isTuple(b) ? a.length === b.length && a.every((x, i) => congruent(x, b[i])) : isTuple(a) === isTuple(b));

  function compact(shape, step = 1) {
    if (!isTuple(shape)) return shape === 1 ? 0 : step;
    return shape.map((part) => {
      const stride = compact(part, step);
      step *= product(part);
      return stride;
    });
  }

  function makeLayout(shape, stride = null) {
    if (flat(shape).some((n) => n < 1)) refuse(`extents must be at least 1, got the shape ${text(shape)}`);
    if (stride === null) return { shape, stride: compact(shape) };
    if (!congruent(shape, stride)) refuse(`the shape ${text(shape)} and the stride ${text(stride)} do not nest alike`);
    return { shape, stride };
  }

  const modes = (layout) => (isTuple(layout.shape) ? layout.shape.map((shape, i) => ({ shape, stride: layout.stride[i] })) : [layout]);
  const join = (parts) => ({ shape: parts.map((p) => p.shape), stride: parts.map((p) => p.stride) });
  const leaves = (layout) => { const strides = flat(layout.stride); return flat(layout.shape).map((s, i) => [s, strides[i]]); };
  const size = (layout) => product(layout.shape);
  const rank = (layout) => asTuple(layout.shape).length;
  const cosize = (layout) => leaves(layout).reduce((all, [s, d]) => all + (s - 1) * Math.abs(d), 1);
  const isNegative = (layout) => flat(layout.stride).some((d) => d < 0);
  // The lowest and the highest offset.
  const reach = (layout) => leaves(layout).reduce(([low, high], [s, d]) => [low + Math.min(0, (s - 1) * d), high + Math.max(0, (s - 1) * d)], [0, 0]);
  const ONE = { shape: 1, stride: 0 };

  // The coordinate of a number: the first mode runs fastest, the last takes what is left.
  function coordinate(index, shape) {
    if (!isTuple(shape)) return index;
    return shape.map((part, i) => {
      if (i === shape.length - 1) return coordinate(index, part);
      const here = index % product(part);
      index = quotient(index, product(part));
      return coordinate(here, part);
    });
  }

  function offset(layout, at, stride) {
    const shape = stride === undefined ? layout.shape : layout;
    if (stride === undefined) stride = layout.stride;
    if (!isTuple(shape)) return isTuple(at) ? refuse(`the coordinate ${text(at)} does not fit the shape ${text(shape)}`) : at * stride;
    if (!isTuple(at)) at = coordinate(at, shape);
    if (at.length !== shape.length) refuse(`the coordinate ${text(at)} does not fit the shape ${text(shape)}`);
    return shape.reduce((sum, part, i) => sum + offset(part, at[i], stride[i]), 0);
  }

  // ---- algebra ------------------------------------------------------------------------------------------------------

  function coalesced(pairs) {
    const result = [];
    for (const [s, d] of pairs) {
      const last = result[result.length - 1];
      if (s === 1) continue;
      if (last && last[0] * last[1] === d) last[0] *= s;
      else result.push([s, d]);
    }
    return result;
  }

  function flatLayout(pairs) {
    if (!pairs.length) return ONE;
    if (pairs.length === 1) return { shape: pairs[0][0], stride: pairs[0][1] };
    return { shape: pairs.map((p) => p[0]), stride: pairs.map((p) => p[1]) };
  }

  const coalesce = (layout) => flatLayout(coalesced(leaves(layout)));

  function byMode(change, layout, tiler) {
    const parts = modes(layout);
    if (parts.length < tiler.length) refuse(`the tiler ${text(tiler)} has more modes than the layout ${text(layout)}`);
    return join(parts.map((part, i) => (i < tiler.length && tiler[i] !== null ? change(part, tiler[i]) : part)));
  }

  const asTile = (x) => (isLayout(x) ? x : makeLayout(x));

  function composition(lhs, rhs) {
    if (isTuple(rhs)) return join(modes(byMode(composition, lhs, rhs)).slice(0, rhs.length));
    rhs = asTile(rhs);
    // The last mode stays even if its extent is 1: numbers past the end go on along it.
    const pairs = leaves(lhs), last = pairs.pop();
    const domain = coalesced([...pairs, [Math.max(last[0], 2), last[1]]]);
    const walk = (shape, stride) => (isTuple(shape) ? join(shape.map((part, i) => walk(part, stride[i]))) : composed(lhs, domain, shape, stride));
    return walk(rhs.shape, rhs.stride);
  }

  function composed(lhs, domain, shape, stride) {
    if (stride === 0) return { shape, stride: 0 };
    const no = (why) => refuse(`${text(lhs)} composed with ${shape}:${stride} is not a layout: ${why}`);
    const result = [];
    let rest = shape, step = stride;
    for (const [s, d] of domain.slice(0, -1)) {
      const available = ceilDiv(s, step);
      if (available === 1 && step % s) no(`a step of ${step} is no multiple of the extent ${s}`);
      if (rest > 1 && available > 1) {
        const kept = Math.min(available, rest);
        if (rest > kept && (s % step || rest % kept)) no(`${rest} elements in steps of ${step} do not run evenly through the extent ${s}`);
        result.push([kept, step * d]);
        rest = quotient(rest, kept);
      }
      step = Math.max(1, quotient(step, s));
    }
    if (rest > 1 || !result.length) result.push([rest, step * domain[domain.length - 1][1]]);
    return flatLayout(result);
  }

  // (stride, extent, index step) of the leaves that move, smallest stride first.
  function byStride(pairs) {
    const result = [], negative = pairs.find(([, d]) => d < 0);
    if (negative) {
      refuse(`strides of 0 or more are needed here, got ${negative.join(":")}. CuTe evaluates, composes and divides layouts with negative strides; ` +
        "left_inverse and the products refuse them, complement and right_inverse give nothing of use");
    }
    let step = 1;
    for (const [s, d] of pairs) {
      if (d && s !== 1) result.push([d, s, step]);
      step *= s;
    }
    return result.sort((a, b) => a[0] - b[0]);
  }

  function complement(layout, cotarget) {
    const result = [];
    let filled = 1;
    for (const [d, s] of byStride(leaves(layout))) {
      if (d < filled) refuse(`${text(layout)} has no complement: it reaches some offset twice`);
      result.push([quotient(d, filled), filled]);
      filled = d * s;
    }
    result.push([ceilDiv(cotarget, filled), filled]);
    return coalesce(flatLayout(result));
  }

  function rightInverse(layout) {
    const result = [];
    let filled = 1;
    for (const [d, s, step] of byStride(coalesced(leaves(layout)))) {
      if (d !== filled) continue;
      result.push([s, step]);
      filled *= s;
    }
    return coalesce(flatLayout(result));
  }

  function leftInverse(layout) {
    const moving = byStride(coalesced(leaves(layout)));
    const result = moving.length ? [[moving[0][0], 0]] : [];
    moving.forEach(([d, s, step], i) => {
      const following = i + 1 < moving.length ? moving[i + 1][0] : d * s;
      if (following % d || following < d * s) refuse(`${text(layout)} has no left inverse: after ${s}:${d} comes the stride ${following}`);
      result.push([quotient(following, d), step]);
    });
    return coalesce(flatLayout(result));
  }

  function logicalDivide(layout, tiler) {
    if (isTuple(tiler)) return byMode(logicalDivide, layout, tiler);
    const tile = asTile(tiler);
    return composition(layout, join([tile, complement(tile, size(layout))]));
  }

  function zipped(divided, tiler) {
    const parts = modes(divided);
    if (!isTuple(tiler)) return parts;
    const pairs = tiler.map((tile, i) => zipped(parts[i], tile));
    return [join(pairs.map((p) => p[0])), join([...pairs.map((p) => p[1]), ...parts.slice(tiler.length)])];
  }

  function zippedDivide(layout, tiler) {
    const holes = (x) => x === null || (isTuple(x) && x.some(holes));
    if (holes(tiler) || typeof tiler === "number") refuse(`a layout or a tuple of tiles without _ is needed, got ${text(tiler)}`);
    return join(zipped(logicalDivide(layout, tiler), tiler));
  }

  function logicalProduct(block, tiler) {
    if (isTuple(tiler)) return byMode(logicalProduct, block, tiler);
    tiler = asTile(tiler);
    return join([block, composition(complement(block, size(block) * cosize(tiler)), tiler)]);
  }

  const append = (layout, r) => (rank(layout) >= r ? layout : join([...modes(layout), ...Array(r - rank(layout)).fill(ONE)]));

  function productModes(block, tiler) {
    const r = Math.max(rank(block), rank(tiler));
    const [inner, outer] = modes(logicalProduct(append(block, r), append(tiler, r))).map(modes);
    if (inner.length !== outer.length) refuse(`the copies of ${text(block)} do not run along its ${inner.length} modes`);
    return inner.map((part, i) => [part, outer[i]]);
  }

  const blockedProduct = (block, tiler) => join(productModes(block, tiler).map(join));
  const rakedProduct = (block, tiler) => join(productModes(block, tiler).map(([inner, outer]) => coalesce(join([outer, inner]))));

  // [the tile that threads times values cover, (thread, value) -> number of an element in it]
  function makeLayoutTV(thread, value) {
    const inverse = rakedProduct(thread, value);
    return [productEach(inverse.shape), composition(rightInverse(inverse), makeLayout([size(thread), size(value)]))];
  }

  function maxCommonVector(a, b) {
    const common = modes(coalesce(composition(a, rightInverse(b))))[0];
    return common.stride === 1 ? size(common) : 1;
  }

  // Swizzle<B, M, S>: B bits of the offset, from bit M + S on, are added without carry to those from bit M on.
  function swizzle([bits, base, shift], at) {
    const mask = (2 ** bits - 1) * 2 ** (base + shift);
    return Number(BigInt(at) ^ ((BigInt(at) & BigInt(mask)) >> BigInt(shift)));
  }

  function parseSwizzle(source) {
    const numbers = (source.match(/\d+/g) || []).map(Number);
    if (numbers.length !== 3 || /[^\d\s,()<>]/.test(source)) refuse("a swizzle is three numbers: bits, base, shift");
    if (numbers[0] > 8 || numbers[1] > 16 || numbers[2] > 16) refuse("a swizzle's numbers are small: at most 8, 16 and 16");
    return numbers[2] < numbers[0] ? refuse(`the shift ${numbers[2]} is less than the ${numbers[0]} bits: they would overlap`) : numbers;
  }

  // ---- a tiled copy -------------------------------------------------------------------------------------------------

  const SECTOR = 32, WARP = 32, BANK = 4, BANKS = 32, MOST_COPIED = 4096;

  // What each thread holds and what each instruction of a copy touches.
  //   tensor, thread, value: layouts; tile: extents or null for the TV layout's own; block: which tile; item: bytes of an element
  //   bits: of the copy atom, 0 for the widest that fits; base: the tensor's address modulo 128; swizzle: [B, M, S] or null
  function tiledCopy({ tensor, thread, value, tile, block, item, bits, base = 0, swizzle: how = null }) {
    const [cover, tv] = makeLayoutTV(thread, value);
    const unit = asTuple(cover), extents = tile ? asTuple(tile) : unit, whole = asTuple(productEach(tensor.shape));
    if (unit.length > 2) refuse(`threads and values cover ${unit.length} modes; one or two can be drawn`);
    if (whole.length !== unit.length) refuse(`the tensor has ${whole.length} modes, threads and values have ${unit.length}`);
    if (extents.length !== unit.length) refuse(`the tile has ${extents.length} modes, threads and values have ${unit.length}`);
    extents.forEach((n, i) => n % unit[i] && refuse(`the tile ${text(extents)} is not a whole number of ${text(unit)}, which threads and values cover`));
    const threads = size(thread), values = size(value), repeats = extents.map((n, i) => n / unit[i]);
    if (isNegative(tensor)) refuse("CuTe takes a negative stride, and the bytes then lie before the address that the tensor starts at. The first half of this page draws such a layout; copies are drawn from strides of 0 or more");
    if (product(extents) > MOST_COPIED) refuse(`a tile of ${product(extents)} elements is too much for a picture: at most ${MOST_COPIED}`);
    if (threads > 1024) refuse(`a block has at most 1024 threads, not ${threads}`);
    const places = whole.map((n, i) => ceilDiv(n, extents[i]));
    const at = places.map((n, i) => Math.min(n - 1, (block || [])[i] || 0));

    // held[t][k]: value k of thread t, those of a repeat of the TV layout after those of the one before
    const held = [];
    for (let t = 0; t < threads; t++) {
      const mine = [];
      for (let r = 0; r < product(repeats); r++) {
        const corner = coordinate(r, repeats);
        for (let v = 0; v < values; v++) {
          const inUnit = coordinate(offset(tv, [t, v]), unit);
          const inTile = unit.map((n, i) => asTuple(inUnit)[i] + asTuple(corner)[i] * n);
          const coord = inTile.map((c, i) => c + at[i] * extents[i]);
          const plain = offset(tensor, rank(tensor) === 1 && !isTuple(tensor.shape) ? coord[0] : coord);
          const place = how ? swizzle(how, plain) : plain;
          mine.push({ tile: inTile, coord, inside: coord.every((c, i) => c < whole[i]), offset: place, address: base + place * item });
        }
      }
      held.push(mine);
    }

    // Whether every `n` values from a multiple of n on are neighbours in memory, and where not.
    function broken(n) {
      for (let t = 0; t < threads; t++) {
        for (let k = 0; k < held[t].length; k += n) {
          for (let i = 1; i < n; i++) {
            if (held[t][k + i].offset !== held[t][k].offset + i) return `values ${k} and ${k + i} of thread ${t} are not neighbours in memory`;
          }
          if (held[t][k].address % (n * item)) return `value ${k} of thread ${t} starts at byte ${held[t][k].address}, no multiple of ${n * item}`;
        }
      }
      return null;
    }
    let widest = 1;
    while (2 * widest * item <= 16 && values % (2 * widest) === 0 && !broken(2 * widest)) widest *= 2;
    // Why no wider copy fits; null for 16 bytes.
    const limit = 2 * widest * item > 16 ? null : values % (2 * widest) ? `a thread has ${values} value${values > 1 ? "s" : ""}` : broken(2 * widest);
    const wanted = bits ? bits / 8 / item : widest;
    let problem = null;
    if (wanted < 1) problem = `${bits} bits do not hold an element of ${item} bytes`;
    else if (values % wanted) problem = `a copy of ${wanted} elements does not divide the ${values} values of a thread`;
    else if (wanted > 1) problem = broken(wanted);
    const vector = problem ? widest : wanted;

    const ragged = whole.some((n, i) => n % extents[i] !== 0);
    let straddles = 0, skipped = 0;
    for (const mine of held) {
      for (let k = 0; k < mine.length; k += vector) {
        const inside = mine.slice(k, k + vector).filter((e) => e.inside).length;
        if (!mine[k].inside) skipped++;
        if (inside > 0 && inside < vector) straddles++;
      }
    }
    return {
      unit, tv, extents, places, block: at, repeats, threads, values, held, widest, limit, vector, problem, ragged, straddles, skipped,
      instructions: held[0].length / vector, warps: ceilDiv(threads, WARP), bytes: vector * item,
    };
  }

  // The lanes of one instruction of one warp that the predicate lets through: [{lane, thread, address}].
  function request(copy, warp, instruction) {
    const lanes = [];
    for (let lane = 0; lane < WARP; lane++) {
      const t = warp * WARP + lane;
      if (t >= copy.threads) break;
      const first = copy.held[t][instruction * copy.vector];
      if (first.inside) lanes.push({ lane, thread: t, address: first.address });
    }
    return lanes;
  }

  // Sectors of global memory that accesses of `bytes` bytes touch, and how few as many distinct bytes need.
  function sectors(lanes, bytes) {
    const touched = new Set(), distinct = new Set();
    for (const { address } of lanes) {
      for (let b = address; b < address + bytes; b++) {
        touched.add(quotient(b, SECTOR));
        distinct.add(b);
      }
    }
    return { sectors: touched.size, least: ceilDiv(distinct.size, SECTOR), bytes: lanes.length * bytes };
  }

  // Wavefronts of shared memory, as cutesim/analysis/requests.py counts them: lanes are served 32, 16 or 8 at a time.
  function wavefronts(lanes, bytes, load = true) {
    const at = Array(WARP).fill(-1);
    for (const { lane, address } of lanes) at[lane] = address;
    const same = (d) => at.every((a, i) => a < 0 || at[i ^ d] < 0 || a === at[i ^ d]);
    const words = Math.max(1, bytes / BANK), together = Math.min(WARP, (WARP / words) * (load && (same(1) || same(2)) ? 2 : 1));
    let needed = 0, least = 0, fullest = 0, bank = 0;
    for (let first = 0; first < WARP; first += together) {
      const banks = Array.from({ length: BANKS }, () => new Set());
      for (const address of at.slice(first, first + together)) {
        for (let w = 0; address >= 0 && w < words; w++) {
          const word = quotient(address, BANK) + w;
          banks[word % BANKS].add(word);
        }
      }
      const most = Math.max(...banks.map((set) => set.size));
      needed += most;
      least += most > 0;
      if (most > fullest) bank = banks.findIndex((set) => set.size === most);
      fullest = Math.max(fullest, most);
    }
    return { wavefronts: needed, least, fullest, bank };
  }

  // ---- the code that makes it ---------------------------------------------------------------------------------------

  const python = (x) => (isTuple(x) ? `(${x.map(python).join(", ")}${x.length === 1 ? "," : ""})` : x === null ? "None" : String(x));

  function codeOfLayout(layout) {
    const plain = text(compact(layout.shape)) === text(layout.stride);
    return `cute.make_layout(${python(layout.shape)}${plain ? "" : `, stride=${python(layout.stride)}`})`;
  }

  const codeOfTiler = (x) => (isLayout(x) ? codeOfLayout(x) : isTuple(x) ? `(${x.map(codeOfTiler).join(", ")}${x.length === 1 ? "," : ""})` : python(x));

  const DIVIDES = ["logical_divide", "zipped_divide"];
  // name: [what it says, which second operand it takes, function, CuTe's name]
  const OPERATIONS = {
    none: ["A alone", null, (a) => a],
    composition: ["composition(A, B)", "tiler", composition],
    complement: ["complement(A, n)", "number", complement],
    logical_divide: ["logical_divide(A, B)", "tiler", logicalDivide],
    zipped_divide: ["zipped_divide(A, B)", "tiler", zippedDivide],
    logical_product: ["logical_product(A, B)", "layout", logicalProduct],
    blocked_product: ["blocked_product(A, B)", "layout", blockedProduct],
    raked_product: ["raked_product(A, B)", "layout", rakedProduct],
    coalesce: ["coalesce(A)", null, coalesce],
    right_inverse: ["right_inverse(A)", null, rightInverse],
    left_inverse: ["left_inverse(A)", null, leftInverse],
    swizzle: ["swizzle of A", "swizzle", (a) => a],
  };

  // {layout, swizzle, code} of an operation on texts; throws a LayoutError that says what does not fit.
  function operate(name, sourceA, sourceB) {
    const [, takes, apply] = OPERATIONS[name] || refuse(`no operation is called ${name}`);
    const a = parseLayout(sourceA);
    const lines = [`A = ${codeOfLayout(a)}`];
    if (takes === null) {
      if (name !== "none") lines.push(`R = cute.${name}(A)`);
      return { layout: apply(a), swizzle: null, code: lines };
    }
    if (takes === "swizzle") {
      const how = parseSwizzle(sourceB);
      if (isNegative(a)) refuse("a swizzle is drawn of offsets of 0 or more");
      lines.push(`R = cute.make_composed_layout(cute.make_swizzle(${how.join(", ")}), 0, A)`);
      return { layout: a, swizzle: how, code: lines };
    }
    let b, shown;
    if (takes === "number") {
      if (!/^\s*\d+\s*$/.test(sourceB) || Number(sourceB) < 1) refuse("the second operand is one number, the size to fill");
      b = Number(sourceB);
      shown = String(b);
    } else {
      b = takes === "layout" ? parseLayout(sourceB) : parseTiler(sourceB);
      shown = codeOfTiler(b);
    }
    lines.push(`B = ${shown}`, `R = cute.${name}(A, B)`);
    return { layout: apply(a, b), swizzle: null, code: lines, isOutside: DIVIDES.includes(name) ? outside(apply, a, b) : null };
  }

  // Which numbers of a divided layout are no elements of the one that was divided: its mode i, taken as n:1, is divided alike,
  // and whatever reaches n or more is outside. Null where the tiler divides evenly.
  function outside(divide, layout, tiler) {
    const divided = divide(layout, tiler);
    if (size(divided) === size(layout)) return null;
    const extents = isTuple(tiler) ? modes(layout).map(size) : [size(layout)];
    const along = extents.map((n, i) => {
      const parts = extents.map((other, k) => ({ shape: other, stride: i === k ? 1 : 0 }));
      return divide(isTuple(tiler) ? join(parts) : parts[0], tiler);
    });
    return (number) => along.some((mode, i) => offset(mode, number) >= extents[i]);
  }

  // A kernel that copies the tensor by these layouts, whole; `copy` is what tiledCopy gave for them.
  function codeOfCopy({ tensor, thread, value, item, space }, copy) {
    const dtype = { 1: "Uint8", 2: "BFloat16", 4: "Float32", 8: "Float64" }[item];
    const tile = python(copy.extents), one = copy.extents.length === 1;
    const at = one ? "(block_row,)" : "(block_row, block_column)";
    const loads = space === "shared";
    const predicated = copy.ragged && copy.values === copy.vector && !loads;
    const pred = predicated ? ", pred=tXpX" : "";
    const rest = one ? "rest" : "row, column";
    const lines = [
      `# mX and mO: ${text(tensor)}, ${dtype}`,
      "@cute.kernel",
      "def copy_kernel(mX: cute.Tensor, mO: cute.Tensor):",
      "    tidx, _, _ = cute.arch.thread_idx()",
      "    block_row, block_column, _ = cute.arch.block_idx()",
      `    gX = cute.local_tile(mX, ${tile}, ${at})`,
      `    gO = cute.local_tile(mO, ${tile}, ${at})`,
      `    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=${8 * copy.bytes})`,
      `    thread_layout = ${codeOfLayout(thread)}`,
      `    value_layout = ${codeOfLayout(value)}`,
      "    thr_copy = cute.make_tiled_copy_tv(atom, thread_layout, value_layout).get_slice(tidx)",
      "    tXgX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(gO)",
      "    tXrX = cute.make_fragment_like(tXgX)",
    ];
    if (predicated) {
      lines.push(
        "    # Which vectors lie inside the tensor, by the coordinates of their first elements.",
        `    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), ${tile}, ${at})`,
        "    tXcX = thr_copy.partition_S(cX)",
        one ? "    rests = cute.size(tXcX, mode=[1])" : "    rows, columns = cute.size(tXcX, mode=[1]), cute.size(tXcX, mode=[2])",
        `    tXpX = cute.make_rmem_tensor(${one ? "(rests,)" : "(rows, columns)"}, cutlass.Boolean)`,
        ...(one ? ["    for rest in cutlass.range_constexpr(rests):"]
          : ["    for row in cutlass.range_constexpr(rows):", "        for column in cutlass.range_constexpr(columns):"]),
        `    ${one ? "" : "    "}    tXpX[${rest}] = cute.elem_less(tXcX[0, ${rest}], mX.shape)`,
      );
    } else if (copy.ragged && !loads) {
      lines.push("    # The last tile reaches past the tensor: give a thread one vector a TV tile, and a predicate here.");
    }
    lines.push(
      `    cute.copy(atom, tXgX, tXrX${pred})`,
      `    cute.copy(atom, tXrX, tXgO${pred})`,
      "", "",
      "@cute.jit",
      "def copy(mX: cute.Tensor, mO: cute.Tensor):",
      `    copy_kernel(mX, mO).launch(grid=[${copy.places[0]}, ${copy.places[1] || 1}, 1], block=[${copy.threads}, 1, 1])`,
    );
    return lines;
  }

  home.Layouts = {
    LayoutError, OPERATIONS, text, parseLayout, parseTiler, parseSwizzle, makeLayout, coordinate, offset, size, cosize, reach, isNegative, rank, modes, flat,
    productEach, coalesce, composition, complement, rightInverse, leftInverse, logicalDivide, zippedDivide, logicalProduct,
    blockedProduct, rakedProduct, makeLayoutTV, maxCommonVector, swizzle, operate, tiledCopy, request, sectors, wavefronts,
    codeOfLayout, codeOfCopy,
  };
  if (typeof module !== "undefined") module.exports = home.Layouts;
})(typeof globalThis !== "undefined" ? globalThis : this);
