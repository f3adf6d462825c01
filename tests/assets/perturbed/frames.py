"""A policy that writes down what it sees and hears, and acts always the same."""

import hashlib
import json
from pathlib import Path

import numpy as np


class Notes:
    def __init__(self, size, pictures, log):
        self.needs = frozenset(pictures)
        self.size, self.log = size, log

    def act(self, obs, episodes):
        (episode,) = episodes
        seen = [obs] if isinstance(obs, np.ndarray) else []
        parts = [obs]
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                parts += [part[key] for key in sorted(part)]
            else:
                seen.append(part)
        digest = hashlib.sha256(b"".join(each.tobytes() for each in seen)).hexdigest()
        with Path(self.log).open("a") as file:
            file.write(
                json.dumps([episode.index, episode.step, digest, episode.description]) + "\n"
            )
        action = np.full(self.size, 0.1, np.float32)
        action[-1] = -1.0
        return action[None]


def make_policy(benchmark, observation_space, action_space, pictures, log):
    return Notes(action_space.shape[0], pictures, log)
