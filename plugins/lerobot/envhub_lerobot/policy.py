"""A LeRobot checkpoint as a policy: made in a process whose interpreter has LeRobot and torch.

The checkpoint's files are local, and were checked by the host: safetensors and JSON only. They are
checked once more here, and LeRobot gets a copy of them in which no name leads anywhere else. It is
LeRobot 0.4.4 or later, which have the functions that are called here.
"""

import copy
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from envhub.conventions import Convention, Conventions, read_conventions
from envhub.declarations import Benchmark
from envhub.errors import ContractError
from envhub.types import Outlier
from envhub.wire.policy_contract import Context
from envhub_lerobot.acting import check_batch, is_mixed, make_acting, way_of
from envhub_lerobot.features import Inputs, check_trained, compare, match, read_rename
from envhub_lerobot.hub_names import FIELDS
from envhub_lerobot.old_format import REMARK, load_weights, read_statistics
from envhub_lerobot.outliers import OutlierFinder, state_statistics
from envhub_lerobot.reading import PROCESSORS, WEIGHTS, Contents, private_copy, read_contents
from envhub_lerobot.sentences import read_sentences
from envhub_lerobot.trained import Trained, read_trained

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_SHOWN = 3
"""Names of weights that an error shows."""


class LeRobotPolicy:
    """Acts with a checkpoint, for episodes whose calls are mixed.

    `envhub.evaluate` calls `for_spaces` of an object that it is given. In a loop of your own, call
    `start` with a `Context` when an episode begins, and `act` with a batch from
    `envhub.observations.to_lerobot` and the contexts of its rows.
    """

    format = "lerobot"
    instructions: Mapping[str, str] = {}
    """What it is told instead of the benchmark's texts, by task."""
    provided: Any = None
    """A `ProvidedInfo` of the files that it was loaded from, if a program loaded it: a run records
    them."""

    def __init__(
        self,
        policy: Any,
        processors: tuple[Any, Any],
        inputs: Inputs,
        batch: int,
        remarks: tuple[str, ...] = (),
        conventions: Conventions | None = None,
    ) -> None:
        config = policy.config
        self.conventions = conventions or {}
        self.batch = batch
        self.about = {
            "type": str(config.type),
            "way": way_of(config),
            "device": str(config.device),
            "lerobot": _version(),
        }
        self._mixed = is_mixed(config)
        if self._mixed:
            self.about["precision"] = "mixed (use_amp)"
        self._remarks = remarks
        self._take(inputs)
        self._preprocess, postprocess = processors
        states = [key for key in config.input_features if "image" not in key]
        self._statistics = state_statistics(self._preprocess.steps, states)
        self._outliers = OutlierFinder(self._statistics)
        self._acting = make_acting(policy, postprocess, batch)

    def for_spaces(
        self, benchmark: Benchmark, observation_space: Any, action_space: Any
    ) -> "LeRobotPolicy":
        """Return the same policy for a benchmark, compared with its spaces.

        Raises:
            ContractError: The checkpoint does not fit the benchmark.
        """
        made = copy.copy(self)
        before = self._inputs
        spaces = observation_space, action_space
        made._take(fit(before.trained, benchmark, *spaces, before.rename))
        made.tell(read_sentences(benchmark))
        made._outliers = OutlierFinder(self._statistics)  # each run is told of its own
        return made

    def tell(self, sentences: Mapping[str, str]) -> None:
        """Be told LeRobot's own sentences, with which its policies were trained."""
        self.instructions = sentences
        if sentences:
            told = f"Tasks are told in the sentences of LeRobot {self.about['lerobot']}"
            self._remarks = (*self._remarks, f"{told}, with which its policies were trained.")
            self._take(self._inputs)

    def check_space(self, space: Any) -> None:
        """Compare the checkpoint's inputs with the observations of a benchmark's own conversion."""
        before = self._inputs
        after = compare(before.trained, space, before.rename, before.name)
        # The drawn cameras stay those that were asked for when the policy was made.
        remarks = tuple(dict.fromkeys((*before.remarks, *after.remarks)))
        self._take(replace(after, needs=before.needs, remarks=remarks))

    def start(self, episode: Context) -> None:
        """Prepare an episode's memory."""
        self._acting.start(episode)

    def act(self, obs: Any, episodes: Sequence[Context]) -> list[Any]:
        """Return a chunk of actions per row.

        Args:
            obs: A batch of observations under LeRobot's names, with the texts `task`.
            episodes: The episode of each row, which was started.
        """
        import torch

        names, size = self._names(obs), self.batch
        mixed = torch.autocast("cuda") if self._mixed else nullcontext()
        with torch.inference_mode(), mixed:
            frames = [self._frame(obs, row, e, names) for row, e in enumerate(episodes)]
            parts = (slice(at, at + size) for at in range(0, len(episodes), size))
            return [c for part in parts for c in self._acting.act(frames[part], episodes[part])]

    def take_outliers(self) -> tuple[Outlier, ...]:
        """Return the numbers far outside the checkpoint's statistics that were met since."""
        return self._outliers.take()

    def _names(self, obs: Any) -> Mapping[str, str]:
        """Return the observation's name of each input, of observations that nobody compared too."""
        if self._inputs.names:
            return self._inputs.names
        shapes = {key: tuple(value.shape[1:]) for key, value in obs.items() if key != "task"}
        names, _ = match(self._inputs.trained, shapes, self._inputs.rename, self._inputs.name)
        return names

    def _take(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self.needs = inputs.needs
        self.remarks = (*self._remarks, *inputs.remarks)

    def _frame(self, obs: Any, row: int, episode: Context, names: Mapping[str, str]) -> Any:
        """Preprocess one row, as LeRobot's loop over one env does."""
        frame = {theirs: obs[ours][row : row + 1] for ours, theirs in names.items()}
        self._outliers.look(frame, episode)
        return self._preprocess({**frame, "task": [obs["task"][row]]})


def make_policy(
    benchmark: Benchmark,
    observation_space: Any,
    action_space: Any,
    directory: str,
    batch: int = 1,
    device: str | None = None,
    n_action_steps: int | None = None,
    threads: int = 1,
    rename: str = "",
    conventions: str | Mapping[str, Convention] = "",
    models: Mapping[str, str] | None = None,
    checked: Mapping[str, str] | None = None,
) -> LeRobotPolicy:
    """Make a policy of a checkpoint.

    Args:
        benchmark: The benchmark that it is evaluated on.
        observation_space: The space of raw observations.
        action_space: The space of actions.
        directory: The checkpoint's files.
        batch: Rows of every call of the network; 1: bit-equal to LeRobot's own use.
        device: Such as `cuda:1`; None: the checkpoint's, or the CPU where that is not available.
        n_action_steps: Actions of a chunk that are executed; None: the checkpoint's number.
        threads: Threads of torch.
        rename: The benchmark's names of features and the checkpoint's, `ours=theirs,...`.
        conventions: What it was trained with, `key=value,...`; before those of its `envhub.json`.
        models: The local directories of the models that the checkpoint names, by their names.
        checked: What the host noted of the checkpoint's files: they must still be so.

    Raises:
        ContractError: The checkpoint cannot be loaded, or does not fit the benchmark.
    """
    batch, threads = _whole("batch", batch), _whole("threads", threads)
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))  # as long as this process lives
    logging.getLogger().setLevel(logging.WARNING)
    names = read_rename(rename)
    policy = load_policy(
        Path(directory),
        batch=batch,
        device=device,
        n_action_steps=n_action_steps,
        threads=threads,
        conventions=conventions,
        models=models or {},
        checked=checked or {},
        inputs_of=lambda trained: fit(trained, benchmark, observation_space, action_space, names),
    )
    policy.tell(read_sentences(benchmark))
    return policy


def load_policy(
    directory: Path,
    *,
    batch: int,
    device: str | None,
    n_action_steps: int | None,
    threads: int | None,
    conventions: str | Mapping[str, Convention],
    models: Mapping[str, str],
    checked: Mapping[str, str],
    inputs_of: Callable[[Trained], Inputs],
) -> LeRobotPolicy:
    """Make a policy of a checkpoint, in a process of its own or in a program of the user.

    The arguments are those of `make_policy`, and checked; `inputs_of` returns how the inputs of
    what was trained are read, or raises that they do not fit.

    Raises:
        ContractError: The checkpoint cannot be loaded.
    """
    contents = read_contents(directory)
    declared = {**contents.conventions, **read_conventions(conventions)}
    torch = _import("torch")
    if threads is not None:
        torch.set_num_threads(threads)
    with offline(), private_copy(contents, checked, models) as place:
        config, remarks = _configure(torch, place, contents, device, n_action_steps)
        _refuse_defaults(config, models)
        if contents.old:
            remarks = (*remarks, REMARK)
            with _explaining(config.type):
                _save_processors(place, config)
        # Before the weights are loaded, which may be gigabytes.
        inputs = inputs_of(read_trained(place, config))
        check_batch(config, batch)
        with _explaining(config.type):
            made = _policy(place, config, old=contents.old), _processors(place, config)
    policy = LeRobotPolicy(*made, inputs, batch, remarks, declared)
    if contents.old:
        policy.about["processors"] = "built from the weights"
    return policy


@contextmanager
def offline() -> Iterator[None]:
    """Let nothing be fetched while a checkpoint is loaded: what is not there is an error."""
    constants = _import("huggingface_hub.constants")  # reads the variables when it is imported
    variables = {name: os.environ.get(name) for name in _OFFLINE}
    before = constants.HF_HUB_OFFLINE
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    _set_offline(constants, value=True)
    try:
        yield
    finally:
        _set_offline(constants, value=before)
        for name, value in variables.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _set_offline(constants: Any, *, value: bool) -> None:
    constants.HF_HUB_OFFLINE = value
    hub = sys.modules.get("transformers.utils.hub")
    if hasattr(hub, "_is_offline_mode"):
        vars(hub)["_is_offline_mode"] = value


def fit(
    trained: Trained,
    benchmark: Benchmark,
    observation_space: Any,
    action_space: Any,
    rename: Mapping[str, str],
) -> Inputs:
    """Compare a checkpoint with the spaces of a benchmark.

    Raises:
        ContractError: It was trained for something else.
    """
    remarks = check_trained(trained, benchmark, action_space.shape, rename)
    # What a benchmark's own conversion makes is known once an env is made.
    space = None if benchmark.lerobot else observation_space
    inputs = compare(trained, space, rename, benchmark.name)
    return replace(inputs, remarks=(*remarks, *inputs.remarks))


def _configure(
    torch: Any, place: Path, contents: Contents, device: str | None, steps: int | None
) -> tuple[Any, tuple[str, ...]]:
    """Return the checkpoint's configuration, with the user's changes, and remarks about it."""
    raw = contents.config
    _refuse_relative(contents)
    config = _config(place, raw)
    remarks: tuple[str, ...] = ()
    asked = device or raw.get("device") or "cpu"
    config.device = _available(torch, asked)
    if config.device != asked and device is not None:
        raise ContractError(f"device={device} is not available here: {config.device} is.")
    if config.device != asked:
        remarks = (f"The checkpoint's device {asked} is not available here: it runs on the CPU.",)
    if hasattr(config, "pretrained_backbone_weights"):
        config.pretrained_backbone_weights = None  # a download, which the checkpoint overwrites
    if steps is not None:
        _set_steps(config, _whole("n_action_steps", steps))
    return config, remarks


def _refuse_relative(contents: Contents) -> None:
    """Refuse checkpoints that would not be evaluated as they were trained."""
    relative = [
        step
        for step in contents.processors.get(PROCESSORS[0], {}).get("steps", ())
        if "relative" in step["registry_name"] and step.get("config", {}).get("enabled", True)
    ]
    if contents.config.get("use_relative_actions") or relative:
        raise ContractError(
            "The checkpoint's actions are relative to the state, and LeRobot's own loops disagree "
            "about which one; EnvHub does not evaluate such checkpoints yet."
        )


def _refuse_defaults(config: Any, models: Mapping[str, str]) -> None:
    """Refuse a configuration that leaves the name of a model to LeRobot, which nobody fetched."""
    for field in sorted(FIELDS & {*vars(config)}):
        value = getattr(config, field)
        if isinstance(value, str) and value not in models.values():
            raise ContractError(
                f"The checkpoint's config.json has no {field}, and LeRobot would take {value}. "
                f'Write "{field}": "{value}" into it.'
            )


def _config(directory: Path, raw: Mapping[str, Any]) -> Any:
    configs = _import("lerobot.configs.policies")
    _import("lerobot.policies.factory")  # registers the types
    try:
        return configs.PreTrainedConfig.from_pretrained(str(directory))
    except Exception as exc:
        known = configs.PreTrainedConfig.get_known_choices()
        reason = str(exc).strip().splitlines()[-1][:200] if str(exc).strip() else type(exc).__name__
        if raw.get("type") not in known:
            reason = f"It does not know the type {raw.get('type')!r}."
        raise ContractError(
            f"The checkpoint's config.json needs another LeRobot: this is {_version()}. {reason}"
        ) from exc


@contextmanager
def _explaining(kind: str) -> Iterator[None]:
    """Turn what LeRobot raises while it loads a checkpoint into one sentence."""
    try:
        yield
    except (ImportError, OSError, ValueError) as exc:
        cause = _cause(exc)
        said = _first_line(cause)
        if isinstance(cause, ImportError):
            said = (
                f"A checkpoint of type {kind} needs more packages: {said} Install lerobot[{kind}] "
                "in the policy's environment."
            )
        elif isinstance(cause, OSError):
            said = (
                f"The checkpoint needs files that are not here: {said} Nothing is fetched while it "
                "is loaded."
            )
        else:
            said = f"LeRobot cannot load the checkpoint: {said}"
        raise ContractError(said) from exc


def _cause(error: BaseException) -> BaseException:
    """Return what is missing, if LeRobot hides it in an error of its own."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, ImportError | OSError):
        inner = inner.__cause__
    return inner or error


def _first_line(error: BaseException) -> str:
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _save_processors(place: Path, config: Any) -> None:
    """Give the copy of an old checkpoint the processors that it lacks."""
    factory = _import("lerobot.policies.factory")
    statistics = read_statistics(place / WEIGHTS, config)
    for processor in factory.make_pre_post_processors(config, dataset_stats=statistics):
        processor.save_pretrained(place)


def _policy(directory: Path, config: Any, *, old: bool) -> Any:
    kind = _import("lerobot.policies.factory").get_policy_class(config.type)
    try:
        if old:
            made = kind(config)
            load_weights(made, directory / WEIGHTS)
            made.to(config.device)
        else:
            made = kind.from_pretrained(str(directory), config=config, strict=True)
    except RuntimeError as exc:
        raise _weights_error(exc) from exc
    made.eval()
    return made


def _weights_error(error: RuntimeError) -> ContractError:
    """Name the first weights that do not fit; torch says all of them."""
    lines = [line.strip() for line in str(error).splitlines()[1:] if line.strip()]
    shown = "; ".join(_shortened(line) for line in lines[:_SHOWN]) or str(error)[:300]
    return ContractError(f"The checkpoint's weights do not fit its config.json: {shown}")


def _shortened(line: str) -> str:
    head, _, names = line.partition(": ")
    listed = names.split(", ")
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{head}: {', '.join(listed[:_SHOWN])}{more}"


def _processors(directory: Path, config: Any) -> tuple[Any, Any]:
    factory = _import("lerobot.policies.factory")
    # EnvHub renames before, with names that were compared with the benchmark's.
    changes = {
        "rename_observations_processor": {"rename_map": {}},
        "device_processor": {"device": config.device},
    }
    kept = json.loads((directory / PROCESSORS[0]).read_text(encoding="utf-8"))["steps"]
    steps = {step["registry_name"] for step in kept}
    made: tuple[Any, Any] = factory.make_pre_post_processors(
        config,
        str(directory),
        preprocessor_overrides={name: changes[name] for name in changes if name in steps},
        postprocessor_overrides={},
    )
    return made


def _version() -> str:
    return str(_import("lerobot").__version__)


def _available(torch: Any, device: str) -> str:
    kind = device.partition(":")[0]
    if kind == "cpu":
        return device
    backend = getattr(torch, kind, None) if kind == "cuda" else getattr(torch.backends, kind, None)
    return device if backend is not None and backend.is_available() else "cpu"


def _set_steps(config: Any, steps: int) -> None:
    longest = int(getattr(config, "chunk_size", None) or getattr(config, "horizon", None) or steps)
    if steps > longest:
        raise ContractError(f"n_action_steps={steps}: the checkpoint predicts {longest} actions.")
    config.n_action_steps = steps


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65536:
        raise ContractError(f"{name} must be a positive whole number, found {value!r}.")
    return value


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise ContractError(f"The policy's interpreter cannot import {name}: {exc}.") from exc
