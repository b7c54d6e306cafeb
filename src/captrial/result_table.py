"""Results in notebooks: `DataFrames` become data frames on request, a `ResultTable` shows as a table, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from markupsafe import escape

from captrial.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas


class HasRows(Protocol):
    """What `ResultTable` needs of a class."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows, each with the same keys."""


class DataFrames:
    """Mixed into a result with `rows()`: `to_pandas`."""

    def to_pandas(self: HasRows) -> pandas.DataFrame:
        """The rows as a data frame; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("to_pandas", "pandas") from None
        return pandas.DataFrame(self.rows())


class ResultTable(DataFrames):
    """Mixed into a result with `rows()`: a short `repr`, an HTML table in notebooks, and `to_pandas`.

    Below the rows stands the `conclusion()` of a result that draws one.
    """

    def __repr__(self: HasRows) -> str:
        """The rows as aligned text."""
        return "\n".join([type(self).__name__, text_table(self.rows()), *_conclusions(self)])

    def _repr_html_(self: HasRows) -> str:
        return html_table(self.rows()) + "".join(f"<p>{escape(sentence)}</p>" for sentence in _conclusions(self))


def _conclusions(result: object) -> list[str]:
    draw: Callable[[], str] | None = getattr(result, "conclusion", None)
    return [draw()] if draw else []


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as aligned columns of text, the keys of the first above them.

    >>> print(text_table([{"model": "ort", "score": 0.66}, {"model": "m2", "score": None}]))
    model  score
    ort     0.66
    m2
    """
    if not rows:
        return "(no rows)"
    cells = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = [not isinstance(value, str) for value in rows[0].values()]
    aligned = [
        [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(*parts, strict=True)]
        for parts in ((line, widths, numbers) for line in cells)
    ]
    return "\n".join("  ".join(line).rstrip() for line in aligned)


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as an HTML table, everything escaped."""
    lines = [_line("th", rows[0] if rows else ()), *(_line("td", map(shown, row.values())) for row in rows)]
    return f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def shown(value: object) -> str:
    """A cell: numbers with four digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
