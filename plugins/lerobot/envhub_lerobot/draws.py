"""Random numbers of torch that follow from the episode, whatever else is drawn in between.

A policy that draws from torch's global generator gets other numbers if the episodes of a run are
played in another order. Here every episode has a stream of its own, from its seed.

- One row: the state of the global generators is exchanged around the call, so that every draw is
  covered, and is the one that a loop over this episode alone would make.
- Several rows: `randn`, `rand`, their `_like` forms and `normal` of a size are drawn row by row
  from the episodes' own generators. A draw of another kind belongs to no row, and is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from envhub.errors import ContractError
from envhub.wire.policy_contract import Context

_SEEDS = 2**63 - 1


def start_stream(episode: Context) -> None:
    """Give an episode that begins its own stream of random numbers."""
    import torch

    generator = torch.Generator().manual_seed(int(episode.rng.integers(_SEEDS)))
    episode.memory["generator"] = generator
    episode.memory["states"] = None


@contextmanager
def stream_of(episode: Context) -> Iterator[None]:
    """Let torch draw the next numbers of one episode."""
    import torch

    saved = _states(torch)
    if episode.memory["states"] is None:
        torch.manual_seed(episode.memory["generator"].initial_seed())
    else:
        _set_states(torch, episode.memory["states"])
    try:
        yield
        episode.memory["states"] = _states(torch)
    finally:
        _set_states(torch, saved)


@contextmanager
def streams_of(episodes: Sequence[Context]) -> Iterator[None]:
    """Let torch draw the next numbers of several episodes, one per row.

    Raises:
        ContractError: Something was drawn that has no rows.
    """
    import torch

    before = _states(torch)
    with _by_rows([episode.memory["generator"] for episode in episodes]):
        yield
    if any(not torch.equal(a, b) for a, b in zip(before, _states(torch), strict=True)):
        _set_states(torch, before)
        raise ContractError(
            "The checkpoint draws random numbers that belong to no row: take --policy-arg batch=1."
        )


def _states(torch: Any) -> list[Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *cuda]


def _set_states(torch: Any, states: list[Any]) -> None:
    torch.set_rng_state(states[0])
    if states[1:]:
        torch.cuda.set_rng_state_all(states[1:])


def _by_rows(generators: Sequence[Any]) -> Any:
    """Return a mode of torch in which each row is drawn from a generator of its own."""
    import torch
    from torch.overrides import TorchFunctionMode

    # A draw, the function that makes an empty tensor of the same kind, and the draw of one row.
    draws: dict[Any, tuple[Any, Any]] = {
        torch.randn: (torch.empty, torch.randn),
        torch.rand: (torch.empty, torch.rand),
        torch.randn_like: (torch.empty_like, torch.randn),
        torch.rand_like: (torch.empty_like, torch.rand),
    }

    def by_rows(empty: Any, draw: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        kwargs.pop("generator", None)
        drawn = empty(*args, **kwargs)
        if drawn.shape[:1] != (len(generators),):
            raise ContractError(
                f"The checkpoint draws random numbers of shape {tuple(drawn.shape)}, which "
                f"are not by {len(generators)} rows: take --policy-arg batch=1."
            )
        for row, generator in enumerate(generators):
            # On the CPU, so that the numbers are the same on every device.
            drawn[row] = draw(drawn.shape[1:], generator=generator, dtype=drawn.dtype)
        return drawn

    def normal(mean: float, std: float, size: Any, **kwargs: Any) -> Any:
        """Draw as flow matching does: with one mean and one deviation for all."""
        return by_rows(torch.empty, torch.randn, (size,), kwargs) * std + mean

    class ByRows(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            if kwargs.get("generator") is not None:
                return func(*args, **kwargs)
            if func is torch.normal and "size" in kwargs:
                return normal(*args, **kwargs)
            if func in draws:
                return by_rows(*draws[func], args, kwargs)
            return func(*args, **kwargs)

    return ByRows()
