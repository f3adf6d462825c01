"""A matrix as text: for a terminal, and as CSV, Markdown and LaTeX. Pure."""

import csv
import io
import re
from textwrap import wrap
from typing import Literal, get_args
from unicodedata import normalize

from envhub.errors import one_line
from envhub.results.conclusion import points
from envhub.results.matrix import Matrix, MatrixCell
from envhub.text import align

Format = Literal["text", "csv", "markdown", "latex"]
FORMATS: tuple[str, ...] = get_args(Format)
_WIDTH = 80


def render_matrix(matrix: Matrix, form: Format, width: int = _WIDTH) -> str:
    """Return a matrix as text.

    Args:
        matrix: The matrix.
        form: For whom.
        width: Columns of a terminal; a matrix that is wider is shown benchmark by benchmark.
    """
    match form:
        case "csv":
            return _csv(matrix)
        case "markdown":
            return _markdown(matrix)
        case "latex":
            return _latex(matrix)
    return _terminal(matrix, width)


def row_name(row: tuple[str, int | None]) -> str:
    """Return the name of a row."""
    policy, seed = row
    return policy if seed is None else f"{policy}, seed {seed}"


def _terminal(matrix: Matrix, width: int) -> str:
    """Benchmarks side by side if there is room, else one below the other."""
    reasons: list[str] = []
    rows: list[tuple[str, ...]] = [("", *map(one_line, matrix.benchmarks))]
    for row in matrix.rows:
        cells = [matrix.at(row, name) for name in matrix.benchmarks]
        rows.append((one_line(row_name(row)), *(_rate(cell, reasons) for cell in cells)))
        if any(cell is not None and cell.difference is not None for cell in cells):
            rows.append(("", *map(_difference, cells)))
    lines = align(rows)
    if max(map(len, lines)) > width:
        lines = _one_below_the_other(matrix, reasons)
    lines += [f"({n}) {one_line(text)}." for n, text in enumerate(reasons, start=1)]
    return "\n".join([*lines, "", *_fold(matrix, min(width, _WIDTH))])


def _fold(matrix: Matrix, width: int) -> list[str]:
    said = map(one_line, (*matrix.notes, matrix.method))
    return [line for text in said for line in wrap(text, width, break_on_hyphens=False)]


def _one_below_the_other(matrix: Matrix, reasons: list[str]) -> list[str]:
    lines: list[str] = []
    reasons.clear()
    for name in matrix.benchmarks:
        rows: list[tuple[str, ...]] = []
        for row in matrix.rows:
            cell = matrix.at(row, name)
            shown = (one_line(row_name(row)), _rate(cell, reasons), _difference(cell))
            rows.append((f"  {shown[0]}", *shown[1:]))
        lines += [one_line(name), *align(rows), ""]
    return lines


def _rate(cell: MatrixCell | None, reasons: list[str]) -> str:
    if cell is None:
        return ""
    said = rate_text(cell)
    if cell.seed_deviation is not None:
        said += f" sd {100 * cell.seed_deviation:.1f}"
    if not (reason := explain(cell)):
        return said
    if reason not in reasons:
        reasons.append(reason)
    return f"{said} ({reasons.index(reason) + 1})"


def rate_text(cell: MatrixCell) -> str:
    """Return the rate of a cell with its interval; a dash where there is none."""
    if cell.line is None or cell.line.rate is None:
        return "-"
    return f"{cell.line.rate:.1%} {interval_text(cell)}".rstrip()


def interval_text(cell: MatrixCell) -> str:
    """Return the interval of a cell's rate in percent; empty where there is none."""
    line = cell.line
    if line is None or line.ci_low is None or line.ci_high is None:
        return ""
    return f"[{100 * line.ci_low:.1f}, {100 * line.ci_high:.1f}]"


def difference_text(cell: MatrixCell) -> str:
    """Return a cell's difference to the baseline, with its interval; empty where there is none."""
    found = cell.difference
    if found is None:
        return ""
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    return f"{points(found.difference)} {interval}{' *' if found.verdict != 'undecided' else ''}"


def _difference(cell: MatrixCell | None) -> str:
    return "" if cell is None else difference_text(cell)


def explain(cell: MatrixCell) -> str:
    """Return why a cell is empty, or not complete; empty if it is neither."""
    if cell.reason is None and cell.complete:
        return ""
    parts = [cell.reason] if cell.reason is not None else []
    if 0 < cell.recorded < cell.planned:
        parts.append(f"{cell.recorded} of {cell.planned} episodes so far")
    return "; ".join(part.rstrip(".") for part in parts) or "not played yet"


_COLUMNS = (
    *("policy", "benchmark", "seeds", "episodes", "planned", "rate", "ci_low", "ci_high"),
    *("seed_deviation", "difference", "difference_ci_low", "difference_ci_high", "pairs"),
    *("p", "p_holm", "verdict", "reason"),
)


def _csv(matrix: Matrix) -> str:
    """One line per cell: fractions, not percentages."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for cell in matrix.cells:
        line, found = cell.line, cell.difference
        values: list[object] = [cell.policy, cell.benchmark, " ".join(map(str, cell.seeds))]
        values += [cell.recorded, cell.planned]
        values += [line.rate, line.ci_low, line.ci_high] if line else [None] * 3
        values.append(cell.seed_deviation)
        values += (
            [found.difference, found.ci_low, found.ci_high, found.pairs, found.p, found.p_holm]
            if found
            else [None] * 6
        )
        values += [found.verdict if found else None, cell.reason]
        writer.writerow([_plain_cell(value) for value in values])
    return out.getvalue().rstrip("\n")


def _plain_cell(value: object) -> object:
    """A spreadsheet takes text that begins so for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


def _markdown(matrix: Matrix) -> str:
    head = ["policy", *matrix.benchmarks]
    lines = [_markdown_row(head), _markdown_row(["---"] * len(head), plain=True)]
    for row in matrix.rows:
        shown = [row_name(row)]
        for name in matrix.benchmarks:
            cell = matrix.at(row, name)
            shown.append("" if cell is None else _in_one(cell))
        lines.append(_markdown_row(shown))
    return "\n".join([*lines, "", *map(_escape_markdown, (*matrix.notes, matrix.method))])


def _in_one(cell: MatrixCell) -> str:
    """Rate and difference in one line."""
    parts = [rate_text(cell)]
    if cell.seed_deviation is not None:
        parts.append(f"sd {100 * cell.seed_deviation:.1f}")
    if cell.difference is not None:
        parts.append(difference_text(cell))
    if reason := explain(cell):
        parts.append(f"({reason})")
    return "; ".join(parts)


def _markdown_row(cells: list[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cells if plain else map(_escape_markdown, cells))} |"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", one_line(text))


_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # the straight one is in no font of the default encoding
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "±": r"$\pm$",
}
_LATEX_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip


def _latex(matrix: Matrix) -> str:
    r"""A table for `\usepackage{booktabs}`; the line on how it was computed is its caption."""
    columns = "l" * (1 + len(matrix.benchmarks))
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        rf"\caption{{{_escape_latex(' '.join((*matrix.notes, matrix.method)))}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(["", *map(_escape_latex, matrix.benchmarks)]) + r" \\",
        r"\midrule",
    ]
    for row in matrix.rows:
        cells = [matrix.at(row, name) for name in matrix.benchmarks]
        rates = [_latex_rate(cell) for cell in cells]
        lines.append(" & ".join([_escape_latex(row_name(row)), *rates]) + r" \\")
        if any(cell is not None and cell.difference is not None for cell in cells):
            lines.append(" & ".join(["", *map(_latex_difference, cells)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _latex_rate(cell: MatrixCell | None) -> str:
    if cell is None:
        return ""
    said = _escape_latex(rate_text(cell))
    if cell.seed_deviation is not None:
        said += rf" (sd {100 * cell.seed_deviation:.1f})"
    if not (reason := explain(cell)):
        return said
    return rf"{said} \emph{{{_escape_latex(reason)}}}"


def _latex_difference(cell: MatrixCell | None) -> str:
    if cell is None or cell.difference is None:
        return ""
    found = cell.difference
    low, high = 100 * found.ci_low, 100 * found.ci_high
    star = "^{*}" if found.verdict != "undecided" else ""
    return rf"${points(found.difference)}{star}$ $[{low:+.1f}, {high:+.1f}]$"


def _escape_latex(text: str) -> str:
    """What LaTeX's default encoding and fonts lack is written as its code point."""
    return "".join(map(_escape_character, one_line(text)))


def _escape_character(character: str) -> str:
    if character.isascii() or character in _LATEX:
        return _LATEX.get(character, character)
    parts = normalize("NFD", character)
    base, accent = parts[:1], _LATEX_ACCENTS.get(parts[1:])
    if accent is not None and base.isalpha() and base.isascii():
        return rf"\{accent}{{{base}}}"
    return f"[U+{ord(character):04X}]"
