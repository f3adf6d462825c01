"""What a comparison of two runs shows, in sentences. Pure."""

from envhub.results.compare import ALPHA, Comparison, GroupComparison
from envhub.text import pluralize


def conclude(found: Comparison, margin: float | None) -> list[str]:
    """Return the sentences below the table."""
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    n = sum(task.n_b for task in found.tasks)
    if found.paired:
        test = "exact McNemar"
        if found.seeds is not None:
            test = f"sign flips of {found.seeds} shared seeds"
        how = f"{test}, {pluralize(n, 'pair')}: {found.only_b} only B, {found.only_a} only A"
    else:
        n_a = sum(task.n_a for task in found.tasks)
        test = "exact test by tasks"
        if found.seeds is not None:
            test = f"permutations of {found.seeds} seeds"
        how = f"{test}, unpaired: {pluralize(n_a, 'episode')} of A, {n} of B"
    amount = (
        f"{points(abs(found.difference)).lstrip('+')} points {interval}, p = {p_value(found.p)}"
    )
    if found.verdict == "undecided":
        amount = f"{points(found.difference)} points {interval}, p = {p_value(found.p)}"
        lines = [f"No difference is shown between A and B: {amount} ({how})."]
    else:
        lines = [f"B is {found.verdict} than A by {amount} ({how})."]
    if found.interval_disagrees:
        lines.append(_disagreement(found))
    lines += _describe_evidence(found)
    if found.p_tasks is not None:
        lines.append(
            f"For tasks like these: p = {p_value(found.p_tasks)} (sign flips of the tasks)."
        )
    if hopeless := _hopeless(found):
        lines.append(hopeless)
    if found.left_out:
        lines.append(f"Not compared: {', '.join(found.left_out)}.")
    lines.append("This speaks of these checkpoints; for a way of training, compare groups of runs.")
    if margin is not None:
        shown = "It is shown" if found.not_worse_by(margin) else "It is not shown"
        lines.append(f"{shown} that B is not worse than A by more than {100 * margin:g} points.")
    return lines


def _describe_evidence(found: Comparison) -> list[str]:
    """Say what the comparison counts once, or not at all."""
    lines: list[str] = []
    if found.seeds is not None:
        lines.append(
            "Tasks have the same seeds, and one seed may be easy in all of them: test and interval "
            "count seeds, so the interval is wider."
        )
    if found.repeats:
        noun = "pair" if found.paired else "episode"
        verb = "repeats another and counts" if found.repeats == 1 else "repeat others and count"
        lines.append(f"{pluralize(found.repeats, noun)} {verb} once only.")
    if found.dropped:
        worst, best = points(found.difference_worst), points(found.difference_best)
        what = "1 pair does not" if found.dropped == 1 else f"{found.dropped} pairs do not"
        lines.append(
            f"{what} count, because an episode is missing or its env failed; with "
            f"{'it' if found.dropped == 1 else 'them'} the difference is {worst} to {best} points."
        )
    elif found.worst is not None and found.best is not None:
        worst, best = points(found.worst.difference), points(found.best.difference)
        lines.append(
            "Episodes without a result do not count; with them the difference is "
            f"{worst} to {best} points."
        )
    return lines


def conclude_groups(found: GroupComparison) -> list[str]:
    """Return the sentences about two groups of runs."""
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    amount = f"{points(found.difference)} points {interval}, p = {p_value(found.p)}"
    if found.degrees is None:
        line = (
            f"Nothing is shown: {points(found.difference)} points, but the rates of each group's "
            "runs do not vary, so the variance between runs is not known."
        )
        return [line]
    how = f"Welch, {len(found.rates_a)} and {len(found.rates_b)} runs, df {found.degrees:.1f}"
    if found.verdict == "undecided":
        return [f"No difference is shown between the groups A and B: {amount} ({how})."]
    return [f"The runs of B are {found.verdict} than those of A: {amount} ({how})."]


def _disagreement(found: Comparison) -> str:
    """Say why the test and the interval do not say the same."""
    test = "McNemar's exact test" if found.paired else "The exact test"
    if found.seeds is not None:
        test = "The test of the seeds"
    if found.verdict == "undecided":
        return (
            f"{test} is stricter than the interval, which leaves out 0: the difference is not "
            "shown at 5 %."
        )
    if found.seeds is not None:
        return f"{test} is less strict than the interval, which contains 0."
    return (
        f"{test} counts every episode alike, the interval every task; it contains 0, so the "
        "difference of the mean over tasks is uncertain."
    )


def _hopeless(found: Comparison) -> str | None:
    """Say if no single task could show a difference, however it went."""
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
