"""Records of episodes that ended in every way."""

from envhub.records import EpisodeError, EpisodeRecord


def episode(task="t", success=None, *, status="ok", where=None, suite="s", reward=0.0, steps=1):
    error = EpisodeError(where, "ValueError", "no", steps) if where else None
    return EpisodeRecord(
        suite=suite,
        task=task,
        episode=0,
        seed=0,
        init_state=None,
        status=status,
        success=success,
        success_step=None,
        end="error" if error else "truncated",
        return_=reward,
        steps=steps,
        out_of_bounds=0,
        trace="",
        seconds=0.0,
        attempts=1,
        error=error,
        number=0,
    )


def won(task="t", **rest):
    return episode(task, True, **rest)


def lost(task="t", **rest):
    return episode(task, False, **rest)


def silent(task="t", **rest):
    """An episode whose env does not report success."""
    return episode(task, None, **rest)


def env_error(task="t", **rest):
    return episode(task, None, status="env_error", where="env", **rest)


def worker_died(task="t", **rest):
    return episode(task, None, status="worker_died", where="worker", **rest)


def policy_error(task="t", success=None, **rest):
    return episode(task, success, status="policy_error", where="policy", **rest)


def policy_timeout(task="t", **rest):
    return episode(task, None, status="timeout", where="policy", **rest)


def env_timeout(task="t", **rest):
    return episode(task, None, status="timeout", where="env", **rest)
