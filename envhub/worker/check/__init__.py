"""The inspections of `envhub check`. They run in the worker, with envs of their own."""

from collections.abc import Callable

from envhub.errors import ContractError
from envhub.plugins import Plugins
from envhub.wire.messages import Probe, Probed
from envhub.worker.benchmark import LoadedBenchmark, find_task
from envhub.worker.check.closing import inspect_closing
from envhub.worker.check.drawing import inspect_drawing
from envhub.worker.check.episode import inspect_episode
from envhub.worker.check.lightness import inspect_listing, inspect_opening
from envhub.worker.check.notes import Notes
from envhub.worker.check.repeats import inspect_repeats, record_trace
from envhub.worker.check.subject import Subject
from envhub.worker.check.watch import inspect_accesses, start_watching

_PROBES: dict[str, Callable[[Subject, Notes], object]] = {
    "listing": inspect_listing,
    "opening": inspect_opening,
    "episode": inspect_episode,
    "drawing": inspect_drawing,
    "repeats": inspect_repeats,
    "trace": record_trace,
    "closing": inspect_closing,
    "accesses": inspect_accesses,
}
"""Each notes what it finds."""


def answer_probe(request: Probe, loaded: LoadedBenchmark | None, plugins: Plugins) -> Probed:
    """Run one inspection; what foreign code raises in it is a finding."""
    notes = Notes()
    if request.probe == "watch":  # before the benchmark is loaded
        start_watching()
        return notes.reply(request.id)
    if loaded is None:
        raise ContractError("No benchmark is loaded.")
    task = find_task(loaded.benchmark, request.suite, request.task)
    subject = Subject(
        loaded,
        plugins,
        request.suite,
        task,
        seed=request.seed,
        steps=request.steps,
        length=request.length,
        cycles=request.cycles,
    )
    _PROBES[request.probe](subject, notes)
    return notes.reply(request.id)
