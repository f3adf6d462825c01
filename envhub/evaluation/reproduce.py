"""Whether what a recipe claims is what its episodes give: the plan, the run, the verdicts.

A recipe names what to run, and gives no consent. What it may name by itself is what the user has
installed, what a benchmark brings, and checkpoints, which are data; code on this machine and
servers the user names again. Code from the Hub needs the user's consent as everywhere.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import util
from pathlib import Path

from packaging.utils import canonicalize_name

from envhub.discovery import entry_points
from envhub.errors import EnvHubError, UnknownName, UsageError, one_line
from envhub.evaluation.plan import select
from envhub.evaluation.recipe import MAX_BYTES, Claim, Recipe, parse_recipe
from envhub.evaluation.request import EvalRequest
from envhub.files import expand_home
from envhub.host.loading import Description, describe
from envhub.options import Argument, Limits, PolicyOptions, Reporter, Say, SourceOptions
from envhub.policies.find import read_policy
from envhub.policies.interpreter import AskedInterpreter, choose_interpreter
from envhub.policies.kinds import Builtin, OfBenchmark, PolicyKind, Provided
from envhub.policies.providers import find_provider
from envhub.refs import PathRef, parse
from envhub.results.reproduction import Reproduction, judge_claims
from envhub.results.run import Run
from envhub.results.statistics import Sample
from envhub.results.summary import Line, read_outcomes, sample
from envhub.runtime.provision import expected_versions
from envhub.sources.find import find_source
from envhub.types import WorkerSpec

GROUP = "envhub.recipes"
"""The entry-point group of recipes that a package brings: any name, and `package:folder`."""


@dataclass(frozen=True, slots=True)
class Reproducing:
    """What the user says about repeating a recipe."""

    policy: PolicyOptions = field(default_factory=PolicyOptions)
    """Another one than the recipe's, or the recipe's where it is code on this machine."""
    benchmark: str | None = None
    env_args: Mapping[str, Argument] = field(default_factory=dict)
    suites: tuple[str, ...] = ()
    """Of the recipe's; none: all."""
    episodes: int | None = None
    workers: int | None = None
    limits: Limits = field(default_factory=Limits)
    out: Path | None = None
    options: SourceOptions = field(default_factory=SourceOptions)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a claim."""

    claim: Claim
    measured: Line | None
    """The line of its suite; None if it was not played."""
    found: Reproduction | None = None
    why: str = ""
    """Why it is not judged."""

    @property
    def verdict(self) -> str:
        """The verdict of its rates, or that there is none."""
        return self.found.verdict if self.found is not None else "not judged"


# Finding recipes


def shipped_recipes() -> dict[str, Path]:
    """Return the recipes of installed packages by name; no package is imported."""
    found: dict[str, Path] = {}
    for point in sorted(entry_points(GROUP), key=lambda point: point.value):
        package, _, folder = point.value.partition(":")
        spec = util.find_spec(package.partition(".")[0])
        for place in (spec.submodule_search_locations or ()) if spec else ():
            files = Path(place, *package.split(".")[1:], folder).glob("*.toml")
            found |= {path.stem: path for path in sorted(files)}
    return dict(sorted(found.items()))


def find_recipe(text: str) -> Recipe:
    """Return the recipe of a file, or of a name that `envhub reproduce list` shows.

    Raises:
        UsageError: There is none, or it is not a recipe.
    """
    path = expand_home(text)
    if "/" not in text and not text.endswith(".toml"):
        known = shipped_recipes()
        if text not in known:
            advice = "Write ./NAME.toml for a file; envhub reproduce list shows the others."
            raise UnknownName("recipe", text, known, advice=advice)
        path = known[text]
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        content = data.decode()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"The recipe {text} cannot be read: {reason}. Check the path.") from exc
    if len(data) > MAX_BYTES:
        raise UsageError(f"The recipe {text} has more than {MAX_BYTES // 1024} KiB.")
    return parse_recipe(content, one_line(text))


# What is to be played


def make_request(recipe: Recipe, asked: Reproducing, name: str) -> EvalRequest:
    """Return the request of an ordinary run.

    Args:
        recipe: The recipe.
        asked: What the user says.
        name: Of the recipe, for errors.

    Raises:
        UsageError: It names code on this machine, or there is no such suite in it.
    """
    run = recipe.run
    for suite in asked.suites:
        if run.suites and suite not in run.suites:
            raise UnknownName("suite of the recipe", suite, run.suites)
    steps = run.max_steps if isinstance(run.max_steps, int) else None
    return EvalRequest(
        ref=_benchmark_ref(recipe, asked, name),
        policy=_policy(recipe, asked, name),
        policy_python=asked.policy.python,
        suites=asked.suites or tuple(run.suites),
        tasks=tuple(run.tasks),
        episodes=asked.episodes or run.episodes,
        seed=run.seed,
        seeding=run.seeding or "shared",  # other loops know nothing else
        max_steps=steps,
        env_args={**run.env, **asked.env_args},
        workers=asked.workers,
        limits=asked.limits,
        out=asked.out,
        options=asked.options,
    )


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known before the first episode."""

    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each suite; empty if the benchmark cannot be described here."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The versions that are known, of the benchmark's workers and of the policy's process."""
    obstacles: tuple[str, ...] = ()
    """Why it cannot be run, whatever is installed."""
    missing: tuple[str, ...] = ()
    """What is not on this machine, or was not agreed to."""

    @property
    def count(self) -> int:
        """How many tasks there are; those of several suites are played once."""
        return len({task for tasks in self.tasks.values() for task in tasks})


def find_obstacles(recipe: Recipe, request: EvalRequest, say: Say = lambda _: None) -> list[str]:
    """Return why a recipe cannot be run; its benchmark is described only if its horizons matter."""
    horizons: Mapping[str, frozenset[int]] = {}
    if isinstance(recipe.run.max_steps, dict):
        _, horizons = _look_at_benchmark(request, say)
    return [*_find_obstacles(recipe, horizons)]


def foresee(recipe: Recipe, request: EvalRequest, say: Say = lambda _: None) -> Foreseen:
    """Find out what would be played, and what is in the way; nothing is built or fetched but code.

    Args:
        recipe: The recipe.
        request: What it asks for, from `make_request`.
        say: Receives messages.
    """
    versions, missing = _look_at_policy(recipe, request)
    try:
        found, horizons = _look_at_benchmark(request, say)
        chosen = select(found.benchmark, request.suites, request.tasks)
    except EnvHubError as error:
        obstacles = tuple(_find_obstacles(recipe, {}))
        return Foreseen({}, versions, obstacles, (*missing, str(error)))
    choice = request.options.runtime
    of_workers = expected_versions(found.spec.source, found.benchmark, choice)
    return Foreseen(
        {suite: tuple(task.name for task in tasks) for suite, tasks in chosen.items()},
        {**of_workers, **versions},
        tuple(_find_obstacles(recipe, horizons)),
        tuple(missing),
    )


def _look_at_benchmark(
    request: EvalRequest, say: Say
) -> tuple[Description, dict[str, frozenset[int]]]:
    """Return the benchmark, and the horizons of each suite."""
    source = find_source(request.ref, request.options, message=say)
    options = request.options
    spec = WorkerSpec(
        source, request.env_args, request.limits, request.max_steps, env_vars=options.env_vars
    )
    found = describe(spec, options.runtime, locked=options.locked, reporter=Reporter(say, say))
    chosen = select(found.benchmark, request.suites, request.tasks)
    return found, {
        suite: frozenset(found.horizon(task) or 0 for task in tasks)
        for suite, tasks in chosen.items()
    }


def _find_obstacles(recipe: Recipe, horizons: Mapping[str, frozenset[int]]) -> Iterator[str]:
    if recipe.config:
        names = ", ".join(recipe.config)
        yield f"it needs config overrides, which EnvHub does not have ({names})"
    steps = recipe.run.max_steps
    if isinstance(steps, dict):
        for suite, own in horizons.items():
            asked = steps.get(suite)
            if asked is not None and own != {asked}:
                listed = ", ".join(map(str, sorted(own)))
                yield (
                    f"it needs {asked} steps for {suite}, whose own horizon is {listed}, and "
                    "--max-steps is one number for all suites"
                )


def _look_at_policy(recipe: Recipe, request: EvalRequest) -> tuple[dict[str, str], list[str]]:
    """Return the versions in the policy's process, and what is missing for it."""
    policy, checkpoint = request.policy, recipe.checkpoint
    if not isinstance(policy, Provided):
        return {}, []
    missing, versions = [], {}
    needs = [f"lerobot{checkpoint.lerobot}"] if checkpoint and checkpoint.lerobot else []
    try:
        distribution = find_provider(policy.scheme).distribution
        runtime = choose_interpreter(
            AskedInterpreter(request.policy_python),
            subject=f"{policy.scheme}:{policy.rest}",
            requires=needs,
            packages=(distribution,),
        )
        versions = dict(runtime.packages)
    except EnvHubError as error:
        missing.append(str(error))
    if checkpoint is not None and policy.rest == checkpoint.repo:
        missing.append(
            "the commit of the checkpoint, which the recipe does not say: --policy "
            f"lerobot:{checkpoint.repo}@<commit>"
        )
    return versions, missing


# What is another than in the claim


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the claim's protocol that is another one here, or may be."""

    what: str
    claim: str | None
    """None: the claim does not say."""
    here: str | None
    """None: it is not known here, or EnvHub has no such thing."""

    def __str__(self) -> str:
        if self.here is None:
            return f"{self.what}: {self.claim}"
        if self.claim is None:
            return f"{self.what}: the claim does not say; {self.here} here"
        return f"{self.what}: {self.claim} in the claim, {self.here} here"


def find_differences(
    recipe: Recipe,
    asked: Reproducing,
    request: EvalRequest,
    tasks: Mapping[str, Sequence[str]],
    packages: Mapping[str, str],
) -> list[Difference]:
    """Name every difference between the claim's protocol and what is, or was, played.

    Args:
        recipe: The recipe.
        asked: What the user says.
        request: What is asked for.
        tasks: The tasks of each suite that is played.
        packages: The versions here, as far as they are known.
    """
    versions: dict[str, object] = {
        str(canonicalize_name(name)): version for name, version in packages.items()
    }
    here: dict[str, object] = {
        **versions,
        **request.env_args,
        **request.policy.args,
        "seed": request.seed,
        "seeding": request.seeding,
    }
    return [
        *_replaced(recipe, asked),
        *_of_protocol(recipe, tasks, here),
        *_of_numbers(recipe, request, tasks),
        *(Difference(name, text, None) for name, text in recipe.differences.items()),
    ]


def _replaced(recipe: Recipe, asked: Reproducing) -> Iterator[Difference]:
    """What the user says otherwise than the recipe."""
    run, ref = recipe.run, recipe.policy_ref
    if asked.policy.name not in (None, ref):
        yield Difference("policy", ref, asked.policy.name)
    elif recipe.checkpoint is not None and not recipe.checkpoint.commit:
        yield Difference("commit of the checkpoint", "the claim does not say", None)
    if asked.benchmark not in (None, run.benchmark):
        yield Difference("benchmark", run.benchmark, asked.benchmark)
    for own, user in ((run.env, asked.env_args), (recipe.policy_args, asked.policy.args)):
        for name, value in user.items():
            if name not in own or own[name] != value:
                yield Difference(name, _shown(own[name]) if name in own else None, _shown(value))


def _of_protocol(
    recipe: Recipe, tasks: Mapping[str, Sequence[str]], here: Mapping[str, object]
) -> Iterator[Difference]:
    """What claims say of versions and options."""
    played = [claim for claim in recipe.claims if claim.suite in tasks or not tasks]
    each = [(claim.suite, claim.protocol) for claim in played if claim.judged]
    for suite, said in (("", recipe.source.protocol), *each):
        for name, value in said.items():
            known = here.get(name, here.get(canonicalize_name(name)))
            what = f"{name}, {suite}" if suite else name
            if known is not None and _shown(known) != _shown(value):
                yield Difference(what, None if value == "" else _shown(value), _shown(known))
            elif known is None and value != "":
                yield Difference(what, f"{_shown(value)} in the claim, not compared", None)


def _of_numbers(
    recipe: Recipe, request: EvalRequest, tasks: Mapping[str, Sequence[str]]
) -> Iterator[Difference]:
    for claim in recipe.claims:
        here = len(tasks.get(claim.suite, ())) * (request.episodes or 0)
        if here and claim.episodes != here:
            claimed = None if claim.episodes is None else str(claim.episodes)
            yield Difference(f"episodes of {claim.suite}", claimed, str(here))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# Verdicts


def judge_recipe(recipe: Recipe, run: Run) -> list[Judged]:
    """Compare each claim with what was measured in its suite."""
    suites, groups = run.suites, run.run_info.plan.seed_groups
    lines = {line.suite: line for line in run.summary().suites}
    outcomes = read_outcomes(run.records(), suites)
    pending: list[tuple[int, tuple[Sample, Sample]]] = []
    judged: list[Judged] = []
    for claim in recipe.claims:
        line = lines.get(claim.suite)
        why = _why_not(claim, line)
        if not why:
            assert claim.tally is not None
            of_suite = {task: outcomes[task] for task in suites[claim.suite] if task in outcomes}
            sides = Sample([claim.tally]), sample(of_suite, groups)
            pending.append((len(judged), sides))
        judged.append(Judged(claim, line, why=why))
    for (place, _), found in zip(pending, judge_claims([each for _, each in pending]), strict=True):
        judged[place] = replace(judged[place], found=found)
    return judged


def _why_not(claim: Claim, line: Line | None) -> str:
    """Return why a claim is not judged; empty if it is."""
    if line is None:
        return "its suite was not played"
    if line.rate is None:
        return "no episode of it has a result" if not line.n else "it reports no success"
    if not claim.judged:
        return "the recipe says so"
    if claim.problem is not None:
        return f"the claim {claim.problem}"
    if claim.tally is None:
        return "the claim does not say of how many episodes"
    return ""


def _benchmark_ref(recipe: Recipe, asked: Reproducing, name: str) -> str:
    if asked.benchmark is not None:
        return asked.benchmark
    ref = recipe.run.benchmark
    if isinstance(parse(ref), PathRef):
        raise _not_named(name, ref, "--benchmark")
    return ref


def _policy(recipe: Recipe, asked: Reproducing, name: str) -> PolicyKind:
    args = {**recipe.policy_args, **asked.policy.args}
    if asked.policy.name is not None:
        return read_policy(asked.policy.name, args)
    policy = read_policy(recipe.policy_ref, args)
    # A server would receive the observations, and everything else is code.
    named = isinstance(policy, Builtin | OfBenchmark) or recipe.checkpoint is not None
    if not named:
        raise _not_named(name, recipe.policy_ref, "--policy")
    return policy


def _not_named(name: str, ref: str, option: str) -> UsageError:
    shown = one_line(ref)[:200]
    return UsageError(
        f"{name} names {shown}, which is code on this machine or a server; a recipe gives no "
        f"consent. Say it yourself: {option} {shown}"
    )
