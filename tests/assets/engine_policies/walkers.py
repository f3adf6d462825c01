"""Policies for the walks: with and without chance and memory, one action or a chunk at a time."""

import os
import time

import numpy as np

CHUNK = 7


def make_policy(
    benchmark, observation_space, action_space, kind="plain", placement="process", **more
):
    made = KINDS[kind](**more)
    made.placement = placement
    return made


class Plain:
    """A function of what is observed, down to the last bit."""

    chunk = 0
    nap = 0.0

    def act(self, obs, episodes):
        time.sleep(self.nap)
        seen = sum(camera.astype(int).sum(axis=(1, 2, 3)) for camera in obs["pixels"].values())
        words = np.array([len(hint) + ord(hint[0]) for hint in obs["hint"]])
        lean = 0.3 * np.sin(seen + words + [episode.step for episode in episodes])
        gap = obs["goal"].astype(float) - obs["agent_pos"]
        actions = 4.0 * gap + lean[:, None]
        if not self.chunk:
            return actions
        return actions[:, None] * np.linspace(1.0, 0.5, self.chunk)[None, :, None]


class PlainChunks(Plain):
    chunk = CHUNK


class Dreamy(Plain):
    """Drifts by chance, and remembers how far."""

    def start(self, episode):
        assert episode.memory == {}
        assert episode.step == 0
        episode.memory["drift"] = episode.rng.normal(0.0, 0.2, 2)

    def act(self, obs, episodes):
        actions = np.asarray(super().act(obs, episodes))
        for row, episode in enumerate(episodes):
            episode.memory["drift"] = 0.9 * episode.memory["drift"] + episode.rng.normal(0, 0.1, 2)
            actions[row] += episode.memory["drift"]
        return actions


class DreamyChunks(Dreamy):
    chunk = CHUNK


class Ragged(Dreamy):
    """Plans as far as the episode's step says: the rows of a call have chunks of all lengths."""

    def act(self, obs, episodes):
        actions = super().act(obs, episodes)
        lengths = [1 + (episode.seed + episode.step) % 5 for episode in episodes]
        return [np.repeat(row[None], n, axis=0) for row, n in zip(actions, lengths, strict=True)]


class RaggedPairs(Ragged):
    """The same, for exactly two at a time."""

    batch = 2


class Tens(Plain):
    chunk = 10


class Hundreds(Plain):
    """Longer than what one request holds, and than any episode."""

    chunk = 100


class Blink(Plain):
    """Looks at one of the two cameras only."""

    needs = frozenset({"pixels/wrist", "agent_pos", "goal", "hint"})

    def act(self, obs, episodes):
        assert list(obs["pixels"]) == ["wrist"]
        return super().act(obs, episodes)


class Robot:
    """Reads what the benchmark's own conversion makes; acts as the benchmark's guide does."""

    format = "lerobot"
    needs = frozenset({"agent_pos", "goal"})

    def act(self, obs, episodes):
        assert sorted(obs) == ["observation.state", "task"]
        state = np.asarray(obs["observation.state"])
        return (state[:, 2:] - state[:, :2]) * 5.0


class Slow(Plain):
    nap = 0.02


class Fours(Dreamy):
    """Acts as the one above, for exactly four at a time; keeps a queue as learned policies do."""

    batch = 4

    def start(self, episode):
        super().start(episode)
        episode.memory["queue"] = []
        episode.memory["calls"] = 0

    def act(self, obs, episodes):
        assert [len(part) for part in (episodes, obs["hint"], obs["goal"])] == [4, 4, 4]
        assert len({id(episode.memory) for episode in episodes}) == 4
        for row, episode in enumerate(episodes):
            assert episode.memory["calls"] == episode.step
            assert row == 0 or episode.index >= 0 or episode.step == 0
            episode.memory["calls"] += 1
            if not episode.memory["queue"]:
                episode.memory["queue"] = [1.0, 1.0, 1.0]
        scale = np.array([episode.memory["queue"].pop() for episode in episodes])
        return super().act(obs, episodes) * scale[:, None]


class Noting:
    """Writes what it is told to the file `path`."""

    def finish(self, episode):
        self.write(f"finish {episode.task} {episode.index}")

    def close(self):
        self.write("close")

    def write(self, line):
        with open(self.path, "a") as file:
            file.write(f"{line}\n")


class Diary(Noting, Plain):
    """Writes down what it is told."""

    def __init__(self, path):
        self.path = path
        self.write("made")

    def start(self, episode):
        self.write(f"start {episode.task} {episode.index}")


class Signed(Noting, Dreamy):
    """Writes down what its process is told, in a file of that process."""

    def __init__(self, path):
        os.makedirs(path, exist_ok=True)
        self.path = f"{path}/{os.getpid()}"
        print("made in", os.getpid())
        self.write(f"made {os.environ.get('CUDA_VISIBLE_DEVICES')}")

    def start(self, episode):
        super().start(episode)
        self.write(f"start {episode.task} {episode.index}")

    def act(self, obs, episodes):
        for episode in episodes:
            self.write(f"act {episode.task} {episode.index}")
        return super().act(obs, episodes)


class Undecided(Plain):
    """Declares what its GPU is called."""

    def __init__(self):
        self.batch = int(os.environ["CUDA_VISIBLE_DEVICES"])


class Faulty(Plain):
    """Misbehaves for one row: that of an episode with an odd seed, at its step 3."""

    def __init__(self, what, where="act", every=False):
        self.what = what
        self.where = where
        self.every = every

    def start(self, episode):
        if self.where == "start" and self.is_bad(episode):
            WAYS[self.what]()

    def act(self, obs, episodes):
        actions = super().act(obs, episodes)
        for row, episode in enumerate(episodes):
            if self.where == "act" and self.is_bad(episode) and episode.step == 3:
                if self.what in WAYS:
                    WAYS[self.what]()
                return ANSWERS[self.what](actions, row)
        return actions

    def finish(self, episode):
        if self.where == "finish":
            WAYS[self.what]()

    def is_bad(self, episode):
        return self.every or episode.seed % 2 == 1


def raises():
    raise RuntimeError("the network is confused")


def quits():
    raise SystemExit("enough")


def hangs():
    while True:
        time.sleep(60)


def exits():
    print("farewell")
    os._exit(9)


def put(actions, row, value):
    actions[row] = value
    return actions


WAYS = {way.__name__: way for way in (raises, quits, hangs, exits)}
ANSWERS = {
    "nan": lambda actions, row: put(actions, row, np.nan),
    "infinite": lambda actions, row: put(actions, row, np.inf),
    "huge": lambda actions, row: put(actions, row, 1e300),
    "complex": lambda actions, row: actions.astype(complex),
    "text": lambda actions, row: actions.astype(str),
    "nothing": lambda actions, row: None,
    "ragged": lambda actions, row: [[0.0, 0.0], [0.0]],
    "wide": lambda actions, row: np.zeros((len(actions), 3)),
    "rows": lambda actions, row: actions[:-1],
    "chunks": lambda actions, row: [np.zeros((n + 1, 2)) for n in range(len(actions) + 1)],
    "no_chunk": lambda actions, row: np.zeros((len(actions), 0, 2)),
}
KINDS = {
    "plain": Plain,
    "plain_chunks": PlainChunks,
    "dreamy": Dreamy,
    "dreamy_chunks": DreamyChunks,
    "ragged": Ragged,
    "ragged_pairs": RaggedPairs,
    "tens": Tens,
    "hundreds": Hundreds,
    "blink": Blink,
    "robot": Robot,
    "slow": Slow,
    "fours": Fours,
    "diary": Diary,
    "signed": Signed,
    "undecided": Undecided,
    "faulty": Faulty,
}
