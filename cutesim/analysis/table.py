"""What the counts are handed out in: numbers under names that print as plain text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of numbers under names; `str()` is a plain table, `total` the numbers of the whole."""

    title: str
    columns: tuple
    rows: tuple
    total: dict

    def __str__(self) -> str:
        cells = [self.columns, *([_cell(value) for value in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        kinds = map(type, self.rows[0] if self.rows else widths)
        align = [str.ljust if kind is str else str.rjust for kind in kinds]
        lines = ["  ".join(a(c, w) for a, c, w in zip(align, row, widths)).rstrip() for row in cells]
        return "\n".join([f"{self.title} (simulated)", *lines])

    __repr__ = __str__

    def column(self, name: str) -> tuple:
        """The values of one column; KeyError where there is none of that name."""
        if name not in self.columns:
            raise KeyError(
                f"the table {self.title!r} has no column {name!r}; it has {', '.join(filter(None, self.columns))}"
            )
        return tuple(row[self.columns.index(name)] for row in self.rows)


def _cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


class Summary(dict):
    """The totals of a trace, by name; `str()` is one line each."""

    def __str__(self) -> str:
        def text(value):
            return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"

        return "\n".join(f"{name.replace('_', ' '):24}{text(value):>12}" for name, value in self.items())
