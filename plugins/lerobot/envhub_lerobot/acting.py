"""The three ways in which LeRobot policies act, for episodes whose calls are mixed.

| way     | for                                    | state of an episode                        |
|---------|----------------------------------------|--------------------------------------------|
| chunk   | policies without state between calls   | none                                       |
| history | policies that look back (`n_obs_steps`)| its last observations, and planned actions |
| swap    | all others                             | whatever the policy keeps between calls    |

Each gives the actions that `select_action` would give in a loop over that episode alone.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from envhub.errors import ContractError
from envhub.wire.policy_contract import PADDING, Context, make_rng
from envhub_lerobot.draws import start_stream, stream_of, streams_of

Way = Literal["chunk", "history", "swap"]
Frame = dict[str, Any]
"""One preprocessed observation, a batch of one row."""
Finish = Callable[[Any], Any]
"""Postprocesses a batch of actions `(rows, action)`."""

CHUNK_TYPES = frozenset({
    "act", "eo1", "evo1", "fastwam", "groot", "molmoact2", "pi0", "pi05", "pi0_fast", "smolvla",
    "vla_jepa", "wall_x", "xvla",
})  # fmt: skip
"""Policies that keep nothing between calls but the actions of a chunk."""
HISTORY_TYPES = frozenset({"diffusion"})

_IMAGES, _ACTION = "observation.images", "action"


class Acting(Protocol):
    """A way to act."""

    def start(self, episode: Context) -> None:
        """Prepare the memory of an episode."""
        ...

    def act(self, frames: Sequence[Frame], episodes: Sequence[Context]) -> list[Any]:
        """Return a chunk of actions per row."""
        ...


def way_of(config: Any) -> Way:
    """Return the way in which a checkpoint's policy acts."""
    if config.type in CHUNK_TYPES and getattr(config, "temporal_ensemble_coeff", None) is None:
        return "chunk"
    return "history" if config.type in HISTORY_TYPES else "swap"


def is_mixed(config: Any) -> bool:
    """Whether a checkpoint acts in mixed precision, as in LeRobot's own evaluation.

    On a CPU that would give bfloat16 numbers, which LeRobot's loop cannot hand to an env.
    """
    return bool(getattr(config, "use_amp", False)) and str(config.device).startswith("cuda")


def check_batch(config: Any, batch: int) -> None:
    """Refuse a number of rows that the checkpoint's way does not allow.

    Raises:
        ContractError: It acts for one episode at a time.
    """
    if way_of(config) == "swap" and batch != 1:
        raise ContractError(
            f"A checkpoint of type {config.type} with this configuration acts for one episode at a "
            "time: take --policy-arg batch=1."
        )


def make_acting(policy: Any, finish: Finish, batch: int) -> Acting:
    """Make the way in which a policy acts."""
    way = way_of(policy.config)
    if way == "swap":
        return Swap(policy, finish)
    return (Chunk if way == "chunk" else History)(policy, finish, batch)


class Chunk:
    """Predicts the actions of a chunk from one observation."""

    def __init__(self, policy: Any, finish: Finish, batch: int) -> None:
        self._policy = policy
        self._finish = finish
        self._batch = batch
        self._steps = policy.config.n_action_steps

    def start(self, episode: Context) -> None:
        """Give the episode its random numbers."""
        start_stream(episode)

    def act(self, frames: Sequence[Frame], episodes: Sequence[Context]) -> list[Any]:
        """Predict a chunk per row."""
        return self._predict(frames, episodes)

    def _predict(self, frames: Sequence[Frame], episodes: Sequence[Context]) -> list[Any]:
        """Call the network with exactly `batch` rows; return the actions of each row."""
        missing = self._batch - len(frames)
        rows = [*frames, *[frames[-1]] * missing]
        fillers = [_filler(episodes[-1]) for _ in range(missing)]
        drawing = stream_of(episodes[0]) if self._batch == 1 else streams_of([*episodes, *fillers])
        with drawing:
            chunks = self._policy.predict_action_chunk(joined(rows))[:, : self._steps]
        return [self._finished(chunks[row : row + 1]) for row in range(len(frames))]

    def _finished(self, chunk: Any) -> Any:
        """Postprocess the actions of one row one by one, as LeRobot's loop does."""
        import torch

        return torch.cat([self._finish(chunk[:, step]) for step in range(chunk.shape[1])])


class History(Chunk):
    """Predicts from the last observations; those in the middle of a chunk are not looked at."""

    def __init__(self, policy: Any, finish: Finish, batch: int) -> None:
        super().__init__(policy, finish, batch)
        self._back = policy.config.n_obs_steps
        policy.reset()
        self._keys = [key for key in policy._queues if key != _ACTION]

    def start(self, episode: Context) -> None:
        """Give the episode its random numbers, and nothing to look back at."""
        super().start(episode)
        episode.memory["frames"] = deque(maxlen=self._back)
        episode.memory["planned"] = ()

    def act(self, frames: Sequence[Frame], episodes: Sequence[Context]) -> list[Any]:
        """Return as many planned actions per row as need no further look."""
        for frame, episode in zip(frames, episodes, strict=True):
            seen = episode.memory["frames"]
            # The first observation stands for those before it.
            seen.extend([self._whole(frame)] * (1 if seen else self._back))
        empty = [episode for episode in episodes if not len(episode.memory["planned"])]
        if empty:
            planned = self._predict([e.memory["frames"][-1] for e in empty], empty)
            for episode, actions in zip(empty, planned, strict=True):
                episode.memory["planned"] = actions
        return [self._next(episode) for episode in episodes]

    def _predict(self, frames: Sequence[Frame], episodes: Sequence[Context]) -> list[Any]:
        missing = self._batch - len(episodes)
        seen = [[*e.memory["frames"]] for e in (*episodes, *[episodes[-1]] * missing)]
        past = [joined([row[index] for row in seen]) for index in range(self._back)]
        queues = {key: deque([frame[key] for frame in past]) for key in self._keys}
        self._policy._queues = {**queues, _ACTION: deque()}
        return super()._predict(frames, episodes)

    def _next(self, episode: Context) -> Any:
        """Take the planned actions before the next observation that will be looked back at."""
        planned = episode.memory["planned"]
        count = max(1, len(planned) - self._back + 1)
        episode.memory["planned"] = planned[count:]
        return planned[:count]

    def _whole(self, frame: Frame) -> Frame:
        """Add the stack of all cameras and leave out the action, as `select_action` does."""
        import torch

        frame = {key: value for key, value in frame.items() if key != _ACTION}
        cameras = [frame[key] for key in self._policy.config.image_features]
        return {**frame, _IMAGES: torch.stack(cameras, dim=-4)} if cameras else frame


class Swap:
    """Calls `select_action` for one episode at a time, with that episode's state in the policy."""

    def __init__(self, policy: Any, finish: Finish) -> None:
        self._policy = policy
        self._finish = finish
        try:
            self._fresh = copy.deepcopy(_state_of(policy))
        except Exception as exc:
            raise ContractError(
                f"The state of a policy of type {policy.config.type} cannot be copied, so that "
                f"episodes would mix: {exc}."
            ) from exc

    def start(self, episode: Context) -> None:
        """Give the episode its random numbers and the state of a policy that was just reset."""
        start_stream(episode)
        # A copy, because reset() changes objects that belong to the episode before.
        vars(self._policy).update(copy.deepcopy(self._fresh))
        with stream_of(episode):
            self._policy.reset()
        episode.memory["state"] = _state_of(self._policy)

    def act(self, frames: Sequence[Frame], episodes: Sequence[Context]) -> list[Any]:
        """Return one action per row."""
        return [self._act(frame, episode) for frame, episode in zip(frames, episodes, strict=True)]

    def _act(self, frame: Frame, episode: Context) -> Any:
        vars(self._policy).update(episode.memory["state"])
        with stream_of(episode):
            action = self._policy.select_action(frame)
        episode.memory["state"] = _state_of(self._policy)
        return self._finish(action)


def joined(frames: Sequence[Frame]) -> Frame:
    """Join frames of one row each to a batch."""
    if len(frames) == 1:
        return dict(frames[0])
    return {key: _join([frame[key] for frame in frames]) for key in frames[0]}


def _join(values: list[Any]) -> Any:
    import torch

    first = values[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(values)
    if isinstance(first, list):
        return [item for value in values for item in value]
    if isinstance(first, Mapping):
        return {key: _join([value[key] for value in values]) for key in first}
    return first


def _state_of(policy: Any) -> dict[str, Any]:
    """Return what a policy keeps between calls: its attributes that are not of the network."""
    import torch

    fixed = {*vars(torch.nn.Module()), "config"}
    plain = (bool, int, float, str, type(None))
    return {
        name: value
        for name, value in vars(policy).items()
        if name not in fixed and (name.startswith("_") or not isinstance(value, plain))
    }


def _filler(episode: Context) -> Context:
    """Make an episode for a row whose actions are dropped."""
    filler = Context(
        episode.suite,
        episode.task,
        episode.description,
        PADDING,
        episode.seed,
        rng=make_rng(episode.seed, episode.task),
    )
    start_stream(filler)
    return filler
