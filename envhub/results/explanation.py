"""Why two results differ, layer by layer: the values, and their words. Nothing is run."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from envhub.errors import UsageError
from envhub.results.comparable import describe_values
from envhub.results.compare import ALPHA, compare
from envhub.results.conclusion import p_value, points
from envhub.results.differences import Divergence, PictureDifference
from envhub.results.run import Run
from envhub.run_info import PlanInfo, RunInfo, agreeing, canonical
from envhub.text import pluralize

LayerName = Literal["question", "versions", "first observation", "physics", "policy", "luck"]
Finding = Literal["same", "same to rounding", "differs", "not checked"]

_QUESTION = (
    "plan.",
    "shard",
    "benchmark.name",
    "benchmark.env_args",
    "benchmark.env_var_hashes",
    "benchmark.conventions",
    "benchmark.lerobot_conventions",
)
"""Where `run.json` has what was asked, of all that must agree; the rest is versions or policy."""
_FOLLOWS = frozenset({"plan.max_steps", "plan.suites", "plan.tasks", "benchmark.env_args"})
"""What is compared apart: what shows in the tasks, and arguments without the places of assets."""
_CODE = ("benchmark.files", "benchmark.assets", "benchmark.plugins")


@dataclass(frozen=True, slots=True)
class Layer:
    """What was found in one layer."""

    name: LayerName
    finding: Finding
    words: str = ""
    """What differs, or why it was not checked."""
    details: tuple[str, ...] = ()
    """The evidence."""
    command: str | None = None
    """What would check it, or shows more."""

    @property
    def text(self) -> str:
        """The finding in one sentence."""
        match self.finding:
            case "not checked":
                return f"not checked, because {self.words}"
            case "differs":
                return f"differs: {self.words}"
        return f"{self.finding}: {self.words}" if self.words else self.finding

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "layer": self.name,
            "finding": self.finding,
            "words": self.words,
            "details": list(self.details),
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why two results differ, or what other versions would change of one."""

    a: str
    b: str | None
    """None: A in other versions."""
    versions: dict[str, str]
    """Those that were asked for."""
    verdict: str
    layers: tuple[Layer, ...]
    pictures: tuple[PictureDifference, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    pins: str | None = None
    """The complete pins of the other versions, as the text of a file."""
    episodes: tuple[str, ...] = field(default=())
    """Those that were played, as TASK:K."""

    def to_json(self) -> dict[str, object]:
        """Return plain data: the content of `envhub explain --json`."""
        return {
            "a": self.a,
            "b": self.b,
            "versions": self.versions,
            "verdict": self.verdict,
            "layers": [layer.to_json() for layer in self.layers],
            "episodes": list(self.episodes),
            "pictures": [each.to_json() for each in self.pictures],
            "physics": [each.to_json() for each in self.divergences],
        }


def compare_questions(a: RunInfo, b: RunInfo) -> Layer:
    """Compare what was asked: tasks, seeds, horizons, arguments and all else that must agree."""
    second = {(item.path, item.words): item.value for item in agreeing(b, "resume")}
    found: dict[str, None] = {}
    args = [info.benchmark.args_without_assets for info in (a, b)]
    if canonical(args[0]) != canonical(args[1]):
        found[describe_values("--env-arg", *args)] = None
    for path, words, value in agreeing(a, "resume"):
        other = second.get((path, words))
        asked = path.startswith(_QUESTION) and path not in _FOLLOWS
        if asked and canonical(value) != canonical(other):
            found[describe_values(words, value, other)] = None
    only_b = {path for path, _ in second} - {item.path for item in agreeing(a, "resume")}
    found |= dict.fromkeys(f"{p} (only B)" for p in sorted(only_b) if p.startswith(_QUESTION))
    found |= dict.fromkeys(_compare_tasks(a.plan, b.plan))
    words = "; ".join(found)
    return Layer("question", "differs", words) if found else Layer("question", "same")


_OF_TASKS = {
    "horizon": "horizon",
    "success": "success rule",
    "init_states": "number of initial states",
    "description": "instruction",
    "seeds_of": "task whose seeds are shared",
}


def _compare_tasks(a: PlanInfo, b: PlanInfo) -> list[str]:
    found = []
    for name, one, other in (("A", a, b), ("B", b, a)):
        own = [task for task in one.tasks if task not in other.tasks]
        if own:
            more = f" and {len(own) - 3} more" if own[3:] else ""
            found.append(f"only {name} has {', '.join(own[:3])}{more}")
    common = [task for task in a.tasks if task in b.tasks]
    for name, words in _OF_TASKS.items():
        pairs = {task: [getattr(plan.tasks[task], name) for plan in (a, b)] for task in common}
        differing = [task for task, (one, other) in pairs.items() if one != other]
        if differing:
            values = describe_values(words, *pairs[differing[0]])
            found.append(f"{values} of {_count(differing, len(common), 'task')}")
    return found


def compare_versions(a: RunInfo, b: RunInfo, machine: Sequence[str]) -> Layer:
    """Compare packages, code and machines.

    Args:
        a: A run's content.
        b: Another's.
        machine: How their machines and packages differ, in words.
    """
    second = {(item.path, item.words): item.value for item in agreeing(b, "resume")}
    found = [
        describe_values(words, value, second.get((path, words)))
        for path, words, value in agreeing(a, "resume")
        if path in _CODE
        and canonical(value) != canonical(second.get((path, words)))
        and not (path == "benchmark.files" and a.benchmark.kind == b.benchmark.kind == "plugin")
    ]
    found += machine
    if a.runtime.key != b.runtime.key and not found:
        found.append("other packages of the runtimes (envhub runtime list names them)")
    if a.envhub != b.envhub:
        found.append(f"EnvHub {a.envhub} in A, {b.envhub} in B")
    if not found:
        return Layer("versions", "same")
    return Layer("versions", "differs", "; ".join(found))


def declared_differences(a: RunInfo, b: RunInfo) -> list[str]:
    """Say how two policies differ by what `run.json` says of them."""
    found = []
    second = {(item.path, item.words): item.value for item in agreeing(b.policy, "resume")}
    for path, words, value in agreeing(a.policy, "resume"):
        other = second.pop((path, words), None)
        if canonical(value) != canonical(other) and not path.startswith("runtime"):
            found.append(_declared(words, value, other))
    found += [_declared(words, None, value) for (path, words), value in second.items()
              if value and not path.startswith("runtime")]  # fmt: skip
    for words, one, other in (
        ("rows of a call", a.policy.batch, b.policy.batch),
        ("fact about the policy", a.policy.about, b.policy.about),
        ("instruction of the policy", a.policy.instructions, b.policy.instructions),
        ("convention of the policy", a.conventions.policy, b.conventions.policy),
    ):
        if canonical(one) != canonical(other):
            found.append(_declared(words, one, other))
    return found


def _declared(words: str, a: Any, b: Any) -> str:
    if isinstance(a, str) and isinstance(b, str) and len(a) == len(b) == 71:  # sha256:...
        return f"another {words}"
    if isinstance(a, dict) and isinstance(b, dict) and "file" in words:
        names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
        return f"another {words} ({', '.join(names[:3])})"
    return describe_values(words, a, b)


def judge_luck(a: Run, b: Run, above: Sequence[Layer]) -> Layer:
    """Say how likely so large a difference of the rates is, if nothing else differs."""
    command = shlex.join(["envhub", "compare", str(a.directory), str(b.directory)])
    try:
        found, paired = compare(a, b), True
    except UsageError:
        try:
            found, paired = compare(a, b, paired=False), False
        except UsageError as error:
            return Layer("luck", "not checked", _clause(str(error)), command=command)
    if not paired:
        command = f"{command} --unpaired"
    rates = f"{found.rate_a:.1%} in A, {found.rate_b:.1%} in B"
    change = f"{points(found.difference)} points, p = {p_value(found.p)}"
    if found.difference == 0:
        return Layer("luck", "same", rates, command=command)
    if any(layer.finding == "differs" for layer in above):
        why = "something above differs, which luck need not explain"
        return Layer("luck", "not checked", why, (f"{rates}: {change}",), command)
    if found.p >= ALPHA:
        words = f"{rates}, as {_times(found.p)} equal policies differ (p = {p_value(found.p)})"
        return Layer("luck", "same to rounding", words, command=command)
    return Layer("luck", "differs", f"{rates}: {change}, hardly luck", command=command)


def conclude(layers: Sequence[Layer], versions: str, pictures: str | None) -> str:
    """Return the verdict: the first layer that differs and has an effect, and those after it.

    Args:
        layers: All, in their order.
        versions: What differs in the versions, in a few words.
        pictures: How pictures differ, in a few words.
    """
    by_name = {layer.name: layer for layer in layers}

    def differs(name: LayerName) -> bool:
        return name in by_name and by_name[name].finding == "differs"

    cause = f" with {versions}" if versions else ""
    found = []
    if differs("question"):
        found.append(f"The runs were asked different questions: {by_name['question'].words}")
    if differs("first observation"):
        found.append(f"{pictures or 'What episodes begin with differs'}{cause}")
    if differs("physics"):
        found.append(f"The physics part{'' if found else cause}: {by_name['physics'].words}")
    if differs("policy"):
        found.append(f"The policies act differently: {by_name['policy'].words}")
    open_ = [layer.name for layer in layers[:5] if layer.finding == "not checked"]
    unknown = f"; not checked: {', '.join(open_)}" if open_ else ""
    if found:
        return f"{'; and '.join(_lower(found))}{unknown}."
    if differs("versions"):
        effect = unknown or ", without an effect here"
        return f"The versions differ ({versions or by_name['versions'].words}){effect}."
    luck = by_name.get("luck")
    rest = f" {luck.words[0].upper()}{luck.words[1:]}." if luck and luck.words else ""
    if unknown:
        return f"Nothing differs in what could be checked{unknown}."
    rounded = [layer.name for layer in layers[:5] if layer.finding == "same to rounding"]
    if rounded:
        return f"Nothing differs beyond rounding ({', '.join(rounded)}).{rest}"
    return f"Nothing differs.{rest}"


def _lower(sentences: list[str]) -> list[str]:
    return [sentences[0], *(f"{each[0].lower()}{each[1:]}" for each in sentences[1:])]


def _times(p: float) -> str:
    return f"{round(100 * p)} of 100" if p >= 0.01 else "fewer than 1 of 100"


def _count(some: Sequence[str], of: int, noun: str) -> str:
    return f"all {pluralize(of, noun)}" if len(some) == of > 1 else (
        some[0] if len(some) == 1 else f"{len(some)} of {pluralize(of, noun)}"
    )  # fmt: skip


def _clause(sentence: str) -> str:
    """Return a sentence as what follows `because`."""
    first = sentence.split(". ")[0].rstrip(".")
    plain = first[:1].isupper() and first[1:2].islower()
    return f"{first[0].lower()}{first[1:]}" if plain else first


def not_checked(name: LayerName, why: object, command: str | None = None) -> Layer:
    """Return a layer that was not checked, and the reason."""
    return Layer(name, "not checked", _clause(str(why)), command=command)


def with_notes(layer: Layer, notes: Sequence[str]) -> Layer:
    """Return a layer with what the plugin says of its versions."""
    return replace(layer, details=(*layer.details, *notes))
