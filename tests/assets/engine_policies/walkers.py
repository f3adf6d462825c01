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


class Slow(Plain):
    nap = 0.02


class Faulty(Plain):
    """Misbehaves for one row: that of an episode with an odd seed, at its step 3."""

    def __init__(self, what, where="act"):
        self.what = what
        self.where = where

    def start(self, episode):
        if self.where == "start" and episode.seed % 2 == 1:
            WAYS[self.what]()

    def act(self, obs, episodes):
        actions = super().act(obs, episodes)
        for row, episode in enumerate(episodes):
            if self.where == "act" and episode.seed % 2 == 1 and episode.step == 3:
                if self.what in WAYS:
                    WAYS[self.what]()
                return ANSWERS[self.what](actions, row)
        return actions

    def finish(self, episode):
        if self.where == "finish":
            WAYS[self.what]()


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
    "no_chunk": lambda actions, row: np.zeros((len(actions), 0, 2)),
}
KINDS = {
    "plain": Plain,
    "plain_chunks": PlainChunks,
    "dreamy": Dreamy,
    "dreamy_chunks": DreamyChunks,
    "slow": Slow,
    "faulty": Faulty,
}
