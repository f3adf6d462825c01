"""What a comparison of two runs shows, in sentences. Pure."""

from envhub.results.compare import ALPHA, Comparison
from envhub.text import pluralize


def conclude(found: Comparison, margin: float | None) -> list[str]:
    """Return the sentences below the table."""
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    n = sum(task.n_b for task in found.tasks)
    if found.paired:
        how = f"exact McNemar, {pluralize(n, 'pair')}: {found.only_b} only B, {found.only_a} only A"
    else:
        n_a = sum(task.n_a for task in found.tasks)
        how = f"Fisher, unpaired: {pluralize(n_a, 'episode')} of A, {n} of B"
    amount = (
        f"{points(abs(found.difference)).lstrip('+')} points {interval}, p = {p_value(found.p)}"
    )
    if found.verdict == "undecided":
        amount = f"{points(found.difference)} points {interval}, p = {p_value(found.p)}"
        lines = [f"No difference is shown between A and B: {amount} ({how})."]
    else:
        lines = [f"B is {found.verdict} than A by {amount} ({how})."]
    if found.dropped:
        worst, best = points(found.difference_worst), points(found.difference_best)
        what = "1 pair does not" if found.dropped == 1 else f"{found.dropped} pairs do not"
        lines.append(
            f"{what} count, because an episode is missing or its env failed; with "
            f"{'it' if found.dropped == 1 else 'them'} the difference is {worst} to {best} points."
        )
    if found.p_tasks is not None:
        lines.append(
            f"For tasks like these: p = {p_value(found.p_tasks)} (sign flips of the tasks)."
        )
    if hopeless := _hopeless(found):
        lines.append(hopeless)
    if found.left_out:
        lines.append(f"Not compared: {', '.join(found.left_out)}.")
    if margin is not None:
        shown = "It is shown" if found.not_worse_by(margin) else "It is not shown"
        lines.append(f"{shown} that B is not worse than A by more than {100 * margin:g} points.")
    return lines


def _hopeless(found: Comparison) -> str | None:
    """Say so if no single task could show a difference, however it went."""
    most = max(task.n_b for task in found.tasks)
    needed = ALPHA / len(found.tasks)
    if not found.paired or len(found.tasks) == 1 or 2 / 2**most <= needed:
        return None
    return (
        f"With {pluralize(most, 'pair')} per task, only the overall comparison can reach "
        "significance."
    )


def points(fraction: float) -> str:
    """Return a difference of rates in percentage points."""
    return f"{100 * fraction:+.1f}"


def p_value(value: float) -> str:
    """Return a p-value with as many digits as it deserves."""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
