"""The lab `break-the-grader`: five graders of softmax with a hole each, five answers that go through, and three holes mended.

Functions of plain Python. A grader here is what it asks (the cases "asked") and how it compares (GRADERS); a cheat has to
satisfy it and be wrong, for the rows asked or for those "beyond". A mend is tried on answers that it has to take and to refuse.
The notebook holds the graders as programs; a test compares the two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from grading.judgement import Case, Diagnosis, Outcome

TITLE = "Break the grader: wrong answers that pass, and the holes mended"
CHEATS = ("slips_through", "all_small", "knows_sizes", "knows_numbers", "leaves_it")
FUNCTIONS = (*CHEATS, "agrees", "lengths", "fill")
CHECKS = dict.fromkeys(CHEATS, 1) | {"agrees": 2, "lengths": 2, "fill": 1}
NAN = math.nan


def right(row) -> tuple:
    """Softmax of a row."""
    most = max(row)
    powers = [math.exp(x - most) for x in row]
    return tuple(power / math.fsum(powers) for power in powers)


def draw(seed: int, length: int) -> tuple:
    """A row, as the notebook draws it."""
    numbers = random.Random(seed)
    return tuple(round(numbers.uniform(-2, 2), 2) for _ in range(length))


def honest(got, expected) -> bool:
    """Whether an answer is right: as long, and each number within float32's rounding."""
    return len(got) == len(expected) and all(abs(g - e) <= 1e-5 * e + 1e-12 for g, e in zip(got, expected))


# How each grader compares.
GRADERS = {
    "slips_through": lambda got, expected: not any(abs(g - e) > 1e-6 for g, e in zip(got, expected)),
    "all_small": lambda got, expected: len(got) == len(expected) and all(abs(g - e) <= 1e-2 for g, e in zip(got, expected)),
} | dict.fromkeys(("knows_sizes", "knows_numbers", "leaves_it"), honest)  # fmt: skip
ASKED_LENGTHS, OTHER_LENGTHS = (32, 64, 256), (1, 33, 100, 250, 300, 1030)

# (name, wrong lengths, what it is told) of kernels that a grader's lengths have to catch.
PLANTED = (
    ("one number", lambda n: n == 1,
     "A row of one number. Its softmax is 1, whatever the number: nothing to merge, nothing to share."),
    ("short rows", lambda n: n < 32,
     "A kernel whose idle lanes add exp(0) each is wrong only where a row has fewer numbers than a warp lanes."),
    ("tail of a vector", lambda n: n > 32 and n % 4 != 0,
     "A kernel that loads 4 numbers at a time drops those after the last four, in rows longer than a warp."),
    ("tail of a warp", lambda n: n > 32 and n % 32 != 0 and n % 4 == 0,
     "Past 32 numbers a kernel may take whole vectors and still drop those after the last full warp: they fill 4, and not 32."),
    ("long rows", lambda n: n > 1024,
     "A kernel with a thread a number is right for as long as a block has threads: 1,024."),
    ("long rows' tail", lambda n: n > 1024 and n % 1024 != 0,
     "Its guard may miss in the second turn only: past 1,024, and no multiple of it."),
)  # fmt: skip
MOST_LENGTHS, LONGEST = 6, 4096


def pairs(seed: int) -> tuple:
    """(takes it, kind, got, expected, what to say) of pairs that a comparison has to judge."""
    numbers = random.Random(seed)
    few = right(numbers.sample((0.5, -1.0, 2.0, 0.0, 1.2, -0.4, 0.8), numbers.randint(4, 7)))
    small = tuple(numbers.uniform(1, 9) * 1e-4 for _ in range(3))
    length = numbers.randint(1500, 2500)
    many, at = (1 / length,) * length, numbers.randrange(1, length - 1)
    return (
        (True, "refuses what is equal", few, few, "The two are the same."),
        (True, "refuses rounding", tuple(x * (1 + 3e-7) for x in few), few,
         "float32 has 24 bits, so a right kernel is away by a ten-millionth or a few. How far may it be?"),
        (True, "refuses underflow", (1.0, 1e-14), (1.0, 0.0),
         "Where the right number is 0, no share of it is left to be away by. The 1e-12 is for that."),
        (False, "accepts NaN", (few[0], NAN, *few[2:]), few,
         "No comparison with NaN is true, neither `>` nor `<=`. Which of the two has to be true of a right number?"),
        (False, "accepts NaN", (NAN,) * len(few), few, "No comparison with NaN is true. Which has to be true of a right number?"),
        (False, "accepts infinity", (math.inf, *few[1:]), few,
         "Of a share of infinity anything is away by less. Of which of the two is the tolerance a share?"),
        (False, "accepts a short answer", few[:2], few,
         "zip ends with the shorter of the two. What is asked of the numbers that are not there?"),
        (False, "accepts a short answer", (), few, "Nothing is wrong in an answer of no numbers. Is that enough?"),
        (False, "accepts a long answer", (*few, 0.0), few, "A kernel that writes past the end of its row is wrong."),
        (False, "accepts what is too small", tuple(x / 2 for x in few), few,
         "Each number is half of the right one. What is the difference then, and is it below the tolerance?"),
        (False, "accepts zeros", (0.0,) * 3, small, "The tolerance is larger than the numbers. What must it be a share of?"),
        (False, "accepts on average", (*many[:-1], 9 * many[-1]), many,
         "One number of many is nine times too large, and the others are exact. Must each be near, or their mean, or their sum?"),
        (False, "accepts zeros", (*small[:2], 1.1 * small[2]), small,
         "The last is a tenth too large. Of what is the tolerance a share?"),
        (False, "accepts zeros", (3e-7, 5e-7), (3e-7, 4e-7), "The last is a quarter too large. Of what is the tolerance a share?"),
        (False, "accepts a wrong number", (*few[:-1], few[-1] * 1.01), few, "The last number is a hundredth too large."),
        (False, "accepts a wrong number", (*few[:-1], few[-1] * 1.001), few, "The last number is a thousandth too large."),
        (False, "accepts a wrong number", (few[1], few[0], *few[2:]), few, "Two numbers have changed places."),
        (False, "accepts a negative number", tuple(-x for x in few), few, "Their signs differ: which is taken from which?"),
        (True, "another tolerance", tuple(x * (1 - 9e-6) for x in few), few,
         "Each is away by 0.9e-5 of the right one, as it may be."),
        (False, "another tolerance", tuple(x * (1 + 1.2e-5) for x in few), few, "Each is away by 1.2e-5 of the right number."),
        (True, "another tolerance", (1.0, 9e-13), (1.0, 0.0), "The last is away by 0.9e-12, as it may be."),
        (False, "another tolerance", (1.0, 2e-12), (1.0, 0.0), "The last is away by 2e-12, and 1e-12 is allowed."),
        (False, "accepts NaN", (1.0, NAN), (1.0, 0.0), "The last is compared with 0. Is it compared at all?"),
        (False, "accepts a wrong number", (1.0, 0.25), (1.0, 0.0), "The last is compared with 0. Is it compared at all?"),
        (False, "accepts a wrong number", (*many[:at], 4 * many[at], *many[at + 1 :]), many,
         "One number between is four times too large."),
    )  # fmt: skip


def cases(seed: int = 0) -> list[Case]:
    """What each grader asks, what it never asks, and what mends are tried on."""
    base = 1000 * seed
    asked = [draw(base + i, 8) for i in range(3)]
    rows = {
        "slips_through": (asked, ()),
        "all_small": ([draw(base + i, 2000) for i in range(2)], ()),
        "knows_sizes": ([draw(base + n, n) for n in ASKED_LENGTHS], [draw(base + n, n) for n in OTHER_LENGTHS]),
        "knows_numbers": ([draw(i, 8) for i in range(2)], [draw(base + i, 8) for i in range(2, 6)]),
    }
    found = [
        Case(name, (row,), target=target)
        for target, both in rows.items()
        for name, some in zip(("asked", "beyond"), both)
        for row in some
    ]
    found += [Case("asked", (row, list(right(row))), target="leaves_it") for row in asked]
    found += [Case("beyond", (row, [NAN] * len(row)), target="leaves_it") for row in asked]
    found += [Case(kind, (got, expected), seed=seed, target="agrees") for _, kind, got, expected, _ in pairs(seed)]
    return [*found, Case("lengths", (), target="lengths"), Case("fill", (), target="fill")]


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What is wrong with a cheat, or with a mend."""
    how = {"agrees": comparison, "lengths": chosen_lengths, "fill": filling}
    yield from how[name](outcomes) if name in how else cheat(name, outcomes)


def raised(name: str, arguments: tuple) -> str:
    """Which row it was where a function of a row stopped."""
    if name not in CHEATS:
        return ""
    many = len(arguments[0])
    text = f"That was a row of {many} number{'s' * (many > 1)}"
    return f"{text}: one of fewer than 32 has no whole part." if name == "knows_sizes" and many < 32 else f"{text}."


# Cheats ---------------------------------------------------------------------------------------------------------------

# (what it is about, what is said where the grader catches it, and where the answer is right)
HOLES = {
    "slips_through": ("NaN", "The grader stops where a difference is greater than 1e-6. Of which numbers is that never true, and "
                      "how many does it look at?", "Find an answer that is wrong and passes."),
    "all_small": ("tolerance", "This grader counts the numbers and knows NaN, but 1e-2 is all that it asks. How large is a number "
                  "of the right answer here?", "Find one that is wrong."),
    "knows_sizes": ("sizes", "The grader asks for rows of 32, 64 and 256 numbers, and is exact there: be right for those.",
                    "Be wrong for some length that is never asked for."),
    "knows_numbers": ("numbers", "The grader's rows are draw(0, 8) and draw(1, 8), in every term: be right for those two.",
                      "Be wrong for a row of as many numbers that is never asked for: these rows have 8."),
    "leaves_it": ("buffer", "Look at what `out` holds when the grader calls you.", "Find an answer that does no work at all."),
}  # fmt: skip


def cheat(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """Why an answer does not go through its hole."""
    what, caught, right_everywhere = HOLES[name]
    for o in outcomes:
        got = o.outputs["answer"]
        if not isinstance(got, (tuple, list)) or not all(type(x) in (int, float) for x in got):
            yield Diagnosis("wrong type", f"{name} returns {shown(got)}; a list of numbers is asked for.")
            return
    for o in outcomes:
        row, got = o.case.make[0], o.outputs["answer"]
        if o.case.name == "asked" and not GRADERS[name](got, right(row)):
            made = f"of a row of {len(row)} numbers {name} makes {shown(got)}"
            text = f"The grader refuses it: {made}, and {shown(right(row))} is right."
            yield Diagnosis(f"caught: {what}", f"{text} {caught}")
    good = [honest(o.outputs["answer"], right(o.case.make[0])) for o in outcomes]
    if all(good) or name == "knows_numbers" and any(g for g, o in zip(good, outcomes) if o.case.name == "beyond"):
        every = "every row" if all(good) else f"{sum(good)} rows"
        text = f"{name} is right for {every} of {len(outcomes)} that were tried. That is an answer and no cheat."
        yield Diagnosis(f"honest: {what}", f"{text} {right_everywhere}")


def shown(value) -> str:
    """A returned value, its first numbers only."""
    if not isinstance(value, (tuple, list)):
        return repr(value)
    some = ", ".join(f"{x:.3g}" if isinstance(x, float) else repr(x) for x in value[:3])
    return f"[{some}{', ...' if len(value) > 3 else ''}]"


# Mends ----------------------------------------------------------------------------------------------------------------


def comparison(outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a comparison takes that it has to refuse, or the other way round."""
    said = [(o.outputs["answer"], *o.case.make) for o in outcomes]
    if any(one is not one_is_near(got, expected, all) for one, got, expected in said) and all(
        one is one_is_near(got, expected, any) for one, got, expected in said
    ):
        said = "agrees accepts every answer of the right length of which one number is right."
        yield Diagnosis("one is enough", f"{said} How many of them have to be near?")
    for o, (takes, kind, got, expected, advice) in zip(outcomes, pairs(outcomes[0].case.seed)):
        said = o.outputs["answer"]
        call = f"agrees({shown(got)}, {shown(expected)}), of {len(got)} and {len(expected)} numbers, returns {shown(said)}."
        if type(said) is not bool:
            yield Diagnosis("wrong type", f"{call} True or False is asked for.")
        elif said != takes:
            yield Diagnosis(kind, f"{call} {advice}")


def one_is_near(got, expected, how) -> bool:
    """Whether an answer has the right length, and any, or all, of its numbers are near."""
    return len(got) == len(expected) and how(abs(g - e) <= max(1e-12, 1e-5 * e) for g, e in zip(got, expected))


def chosen_lengths(outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """Which planted kernel goes through a choice of lengths."""
    chosen = outcomes[0].outputs["answer"]
    call = f"lengths() returns {shown(chosen)}"
    if not isinstance(chosen, (tuple, list)) or not all(type(n) is int and 1 <= n <= LONGEST for n in chosen):
        yield Diagnosis("wrong type", f"{call}. A list of whole numbers from 1 to {LONGEST:,} is asked for.")
    elif len(chosen) > MOST_LENGTHS:
        text = f"{call}, {len(chosen)} lengths; the grader has time for {MOST_LENGTHS}. Which of them catch what no other does?"
        yield Diagnosis("too many lengths", text)
    else:
        for name, wrong, text in PLANTED:
            if not any(map(wrong, chosen)):
                many = "the one length" if len(chosen) == 1 else f"all {len(chosen)} lengths"
                yield Diagnosis(f"not caught: {name}", f"A wrong kernel passes for {many}. {text}")


def filling(outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """Whether a right answer may hold what the buffer is filled with."""
    value = outcomes[0].outputs["answer"]
    if type(value) not in (int, float):
        yield Diagnosis("wrong type", f"fill() returns {shown(value)}; a number is asked for.")
    elif any(one_is_near((value,), (number,), all) for number in (0, min(max(value, 0), 1), 1)):
        text = (
            f"fill() returns {value:.9g}, and task 6 takes that for a softmax: 0 where exp underflows, 1 in a row of one number, "
            "else between."
        )
        never = "A kernel that writes nothing would be right there. What can softmax never be?"
        yield Diagnosis("a possible answer", f"{text} {never}")
