"""`lines`: a kernel's source with where its warps wait, line by line; a line opens to what it touches and what became of it. Of a
kernel that was compiled and not sampled `listed` draws the same.

The bar of a line is its part of all samples, parted by what the warps waited for. Lines of the kernel stand in their order, then
those of functions that it calls; the compiler knows the innermost one. Samples come from a record (`records.lines`), what lanes
touch from a simulated run.
"""

from __future__ import annotations

import difflib
from html import escape
from itertools import chain, groupby

from cutesim import analysis
from cutesim.trace import Space
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import contiguous_rows
from quack_tutorial.records import lines as record
from quack_tutorial.records.lines import GROUPS, REASONS

from .code import methods
from .player import page
from .profile import SECTOR_BYTES
from .suites import Shown
from .theme import asset

NO_LINE = {  # what the compiler puts at a decorator: of the function that launches, and of the kernel
    "@cute.jit": ("of no line", "loops, conversions, the end: what the compiler adds"),
    "@cute.kernel": ("of no line", "beginning: the first instructions, arguments, comparisons"),
}
LEAST = 0.005  # of the samples; of less a line shows no bar
UNITS = {"GB": 1e9, "MB": 1e6, "KB": 1e3, "bytes": 1}


def lines(operation, *versions, dtype="float32", N=4096, trace=None) -> Shown:
    """The source of a version of a ladder, or of what ships ("ours"), with what was sampled of it on rows of N.

    Of two versions, a line has a bar for each, and is marked where one of them lacks it; lines at which neither waits are left out,
    and PTX. `trace`, of the last one's run on the simulator, adds what lanes touch. ValueError where nothing of it is recorded.
    """
    kept = record.load(operation)
    if kept is None:
        raise ValueError(f"no samples of {operation!r} are recorded: quack-tutorial lines records them")
    sampled = [kept(version, dtype, N) for version in versions]
    made = {"ours": OPERATIONS[operation].ours, **OPERATIONS[operation].ladder}
    kernels = [type(made[name].kernels(contiguous_rows(dtype, N), None)[0][0]) for name in versions]
    sizes = f"{operation}, {dtype}, {sampled[0].M:,} rows of {N:,}"
    launches = {each.version: each.main for each in sampled}
    return drawn(launches, [methods(kernel)["kernel"] for kernel in kernels], sizes, kept.origin, trace)


def listed(listing, kernel, trace) -> Shown:
    """The source of a kernel with its recorded PTX and SASS (`records.listings`), and what the lanes of a simulated run touch."""
    sizes = f"{listing.kernel}, {listing.dtype}, rows of {listing.N:,}"
    return drawn({listing.kernel: listing.launch()}, [methods(kernel)["kernel"]], sizes, listing.origin, trace)


def drawn(launches, codes, sizes, origin, trace=None, kernel="kernel", whole=False) -> Shown:
    """The figure of one or two named launches (`records.lines.Launch`); `codes` are the lines of their functions `kernel`.

    `sizes` is what ran, `origin` where the samples are from. Of launches without samples it is the source with what became of it.
    `whole`: the trace is of the same sizes, so that what all requests of a line move is said, too.
    """
    main = list(launches.values())
    rows = _rows(main, codes, kernel)
    most = max(each.us * each.share(each.slowest()) if each.samples else 0 for each in main)
    touched = {} if trace is None else touches(trace, whole)
    title = " and ".join(launches)
    keys, told = "", "A line opens to what its lanes touch and what the compiler made of it."
    if most:
        keys = "".join(f'<span><i data-g="{group}"></i>{escape(words)}</span>' for group, words in GROUPS.items())
        told = "Of all samples of a kernel's warps, the part at each line, by what they waited for. A line opens."
    if len(main) > 1:
        told += " Bars are as long as the kernel's time, parted the same way."
    listing = []
    for name, group in groupby(rows, key=lambda row: row[0]):
        listing.append(f'<div class="qt-in">{escape(name)}</div>')
        listing += [_row(launches, *row[1:], most, touched.get((name, row[1].strip()))) for row in group]
    html = page(
        title=f"Where the warps wait: {title}" if most else f"Line by line: {title}",
        caption=f"<p>{escape(sizes)}. {told}</p>",
        picture=f'<style>{asset("lines.css")}</style><div class="qt-keys">{keys}</div>'
        f'<div class="qt-heads">{"".join(map(_head, launches, main))}</div><div class="qt-waits">{"".join(listing)}</div>',
        origin=origin,
        data=[title, sizes],
    )
    head = f"{sizes}: {'where the warps wait' if most else 'line by line'}"
    return Shown(html, "\n".join([head, *_texts(launches, rows), *([origin] if whole else [])]))


def _head(name, launch) -> str:
    time = f" {launch.us:,.0f} us" if launch.us else ""
    facts = {"registers": launch.registers, "threads": launch.threads, "blocks": launch.blocks}
    known = ", ".join(
        f"{count:,} {what.removesuffix('s') if count == 1 else what}" for what, count in facts.items() if count
    )
    return f"<span><b>{escape(name)}</b>{time} <small>{known}</small></span>"


def _rows(launches, codes, kernel) -> list[tuple]:
    """(function, text, "+", "-" or "", a line of each launch or None): the kernels' lines, then others that have instructions."""
    known, used = [_by_place(launch) for launch in launches], set()
    rows = []
    for text, places in _merged(codes):
        found = []
        for n, place in enumerate(places):
            key = None if place is None else (kernel, text.strip(), _earlier(codes[n], place))
            found.append(known[n].get(key))
            used.add((n, key))
        if len(codes) == 1 or _share(launches, found) >= LEAST:
            sign = "" if None not in places else "+" if places[0] is None else "-"
            rows.append((kernel, text, sign, found))
    rest = [[key for key in lines if (n, key) not in used and key[1]] for n, lines in enumerate(known)]
    called = {}
    for key in dict.fromkeys(chain(*rest)):
        found = [lines[key] if key in left else None for lines, left in zip(known, rest)]
        share = _share(launches, found)
        if share >= LEAST or not any(launch.samples for launch in launches):
            shown = NO_LINE.get(key[1], key[:2])
            called.setdefault(shown[0], []).append((share, (*shown, "", found)))
    for functions in sorted(called.values(), key=lambda entries: -sum(share for share, _ in entries)):
        rows += [row for _, row in functions]
    return rows


def _share(launches, found) -> float:
    return max((launch.share(line) for launch, line in zip(launches, found) if line), default=0)


def _by_place(launch) -> dict:
    found = {}
    for line in launch.lines:
        which = line.which if isinstance(line.which, list | tuple) else (line.which,)
        found[line.function, line.text, which[0]] = line
    return found


def _merged(codes):
    """(text, its place in each of the codes or None), in an order that keeps each code's."""
    if len(codes) == 1:
        yield from ((text, (n,)) for n, text in enumerate(codes[0]))
        return
    for tag, i, j, k, m in difflib.SequenceMatcher(None, *codes, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from ((codes[0][n], (n, n - i + k)) for n in range(i, j))
        else:
            yield from ((codes[0][n], (n, None)) for n in range(i, j))
            yield from ((codes[1][n], (None, n)) for n in range(k, m))


def _earlier(code, place) -> int:
    """How many lines of the same text stand before a place."""
    return sum(text.strip() == code[place].strip() for text in code[:place])


def _row(launches, text, sign, found, most, touched) -> str:
    indent = len(text) - len(text.lstrip())
    words = {"+": "added: ", "-": "removed: ", "": ""}[sign]
    code = f'<span class="qt-said">{words}</span><code style="--in:{indent}">{escape(text.strip())}</code>'
    bars = "".join(_bar(*pair, most) for pair in zip(launches.values(), found) if most)
    if not any(found) and not touched:
        return f'<div class="qt-line">{bars}{code}</div>'
    inside = ""
    for (name, launch), line in zip(launches.items(), found):
        if line:
            inside += f"<p><b>{escape(name)}</b></p>" if len(launches) > 1 else ""
            inside += _inside(launch, line, touched, with_ptx=len(launches) == 1)
    if not any(found):
        inside = f"<p>{escape(touched)}</p>"
    last = next((line for line in reversed(found) if line), None)
    return (
        f'<details class="qt-line" data-d="{sign}"><summary>{bars}{code}{_badges(last) if last else ""}</summary>'
        f"<div>{inside}</div></details>"
    )


def _bar(launch, line, most) -> str:
    if line is None:
        return '<span class="qt-part"></span><span class="qt-bar"></span>'
    share = launch.share(line)
    bar = "".join(
        f'<i data-g="{group}" style="width:{100 * count / launch.samples * launch.us / most:.1f}%"></i>'
        for group in GROUPS
        if (count := line.groups[group]) >= LEAST * launch.samples
    )
    part = f"{share:.0%}" if share >= LEAST else "\N{MIDDLE DOT}"
    return f'<span class="qt-part">{part}</span><span class="qt-bar">{bar}</span>'


def _badges(line) -> str:
    found = []
    if line.sectors:
        more = line.sectors / max(1, line.ideal_sectors)
        found.append(_bytes(line.sectors * SECTOR_BYTES) + (f", {more:.1f} x what is needed" if more > 1.05 else ""))
    if line.wavefronts > 1.05 * line.ideal_wavefronts:
        found.append(f"{line.wavefronts / max(1, line.ideal_wavefronts):.1f} x the wavefronts")
    return "".join(f"<small>{escape(text)}</small>" for text in found)


def _bytes(count: int) -> str:
    unit = next(unit for unit, of in UNITS.items() if count >= of)
    return f"{count / UNITS[unit]:.3g} {unit}"


def sentence(launch, line) -> str:
    """What is known of a line, in one sentence."""
    live = f"; {line.live} registers of a thread are in use, more than elsewhere"
    live *= line.live == launch.live > 0
    if not line.samples:
        made = f"{line.instructions} instruction{'s' * (line.instructions != 1)}"
        made += f", at which no warp was seen waiting{live}." if launch.samples else f"{live}."
        return made
    why = REASONS[line.reason][1]
    part = line.stalls[line.reason] / line.samples
    told = f"{launch.share(line):.1%} of all samples are here; in {part:.0%} of them the warp {why}"
    if line.sass and line.reason in ("long_sb", "short_sb"):
        slowest = max(line.sass, key=lambda entry: entry[3])
        told += f", most often at {slowest[1]}"
    several = " This text stands more than once in the function, and is counted together."
    return f"{told}{live}.{several * isinstance(line.which, list | tuple)}"


def _inside(launch, line, touched, with_ptx) -> str:
    found = [f"<p>{escape(sentence(launch, line))}</p>"]
    if touched:
        found.append(f"<p>{escape(touched)}</p>")
    for count, ideal, of in (
        (line.sectors, line.ideal_sectors, "sectors of 32 bytes"),
        (line.wavefronts, line.ideal_wavefronts, "wavefronts of shared memory"),
    ):
        if count:
            found.append(f"<p>Counted: {count:,} {of}; the same bytes side by side take {ideal:,}.</p>")
    if line.ptx and with_ptx:
        found.append(f"<p>PTX</p><pre>{escape(chr(10).join(line.ptx))}</pre>")
    if line.sass:
        counted = bool(launch.samples)
        rows = "\n".join(
            f"{samples / launch.samples:6.1%} {executed:>11,}  {text}" if counted else text
            for _, text, executed, samples in line.sass
        )
        rest = line.instructions - len(line.sass)
        more = f"\n  and {rest} more" if rest > 0 else ""
        of_each = ": part of the samples, times executed by a warp" if counted else ""
        found.append(f"<p>SASS{of_each}</p><pre>{escape(rows + more)}</pre>")
    return "".join(found)


def touches(trace, whole=False) -> dict:
    """{(function, text): what the lanes of a line's first requests touch, as a simulated run has it: a sentence for each tensor
    that the line reads or writes}.

    With `whole` also what all its requests of that tensor move.
    """
    found, lines = {}, {}
    for space, unit in ((Space.GMEM, "sectors"), (Space.SMEM, "wavefronts")):
        requests = analysis.requests(trace, space)
        for number, kind, tensor in dict.fromkeys(zip(*(requests[of].tolist() for of in ("line", "kind", "tensor")))):
            line = trace.lines[number]
            key = line.function.rpartition(".")[2], line.text.strip()
            if lines.setdefault(key, number) != number:  # another line of the same text
                continue
            alike = (requests["line"] == number) & (requests["kind"] == kind) & (requests["tensor"] == tensor)
            said = _asked(requests[alike], unit, trace.tensors[tensor].name, whole)
            found.setdefault(key, []).append(said)
    return {key: f"Simulated: {' '.join(sentences)}" for key, sentences in found.items()}


def _asked(requests, unit, name, whole) -> str:
    """What the first of a line's requests of a tensor touches, and with `whole` all of them."""

    def counted(some):
        count, least = some[unit].sum(), some[f"ideal_{unit}"].sum()
        number = f"{count:,} {unit[:-1] if count == 1 else unit}"
        return f"{number} where {least:,} would do" if least < count else number

    first = requests[:1]
    lanes, verb = int(first["lanes"][0]), ("read", "write", "change")[int(first["kind"][0])]
    who = f"1 lane {verb}s" if lanes == 1 else f"{lanes} lanes {verb}"
    said = f"{who} {int(first['bytes'][0])} bytes of {name} at once, in {counted(first)}."
    if whole and len(requests) > 1:
        said += f" All {len(requests):,} such requests: {requests['bytes'].sum():,} bytes, {counted(requests)}."
    return said


def _texts(launches, rows):
    """The same as lines of text."""
    yield "  ".join(f"{name}, {launch.us:,.0f} us" if launch.us else name for name, launch in launches.items())
    yield "In front of each line: " + (
        "its share of the samples" if any(launch.samples for launch in launches.values()) else "its instructions"
    )
    named = rows[0][0]
    for name, text, sign, found in rows:
        pairs = zip(launches.values(), found)
        parts = [
            f"{at.share(line):6.1%}" if line and at.samples else f"{line.instructions if line else '':>6}"
            for at, line in pairs
        ]
        yield f"{' '.join(parts)} {sign:1} {'' if name == named else f'{name}: '}{text}"
