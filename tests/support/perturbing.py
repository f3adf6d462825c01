"""A plugin of perturbations in a directory of packages, as a user installs one."""

from pathlib import Path

PLUGIN = """
import envhub, numpy as np
from envhub import Perturbation

@envhub.hookimpl
def envhub_perturbations():
    yield Perturbation("shade", ":Shade", "moves the camera", 50, ("pictures",),
                       ("mujoco", "observe"), version="3")
    yield Perturbation("speck", ":Speck", "adds noise", 50, ("pictures",))
    yield Perturbation("shove", ":Shove", "moves the thing", 5, ("scene",), ("mujoco", "observe"))
    yield Perturbation("jerk", ":Jerk", "adds to actions", 1, ("actions",))
    yield Perturbation("say", ":Say", "adds words", 9, ("instruction",), texts=True)
    yield Perturbation("bad", ":Bad", "makes another type", 9, ("pictures",))

class Strength:
    def __init__(self, strength):
        self.strength = strength

class Shade(Strength):
    def begin(self, scene):
        model, _ = scene.mujoco()
        scene.changing(model.camera)[...] += self.strength * scene.rng.uniform(-1, 1, 3)

class Speck(Strength):
    def picture(self, frame, rng):
        noise = self.strength * rng.uniform(-1, 1, frame.shape)
        return np.clip(frame + noise, 0, 255).astype(np.uint8)

class Shove(Strength):
    def begin(self, scene):
        _, data = scene.mujoco()
        data.place[...] += self.strength * scene.rng.uniform(-1, 1, 2)

class Jerk(Strength):
    def action(self, action, rng):
        return (action + self.strength * rng.uniform(-1, 1, 2)).astype(action.dtype)

class Say(Strength):
    def begin(self, scene):
        self.task = scene.task.name

    def instruction(self, text, rng):
        if isinstance(self.strength, dict):
            texts = self.strength.get(self.task, [text])
            return texts[rng.integers(len(texts))]
        return text + " Now." * int(rng.integers(1, 1 + self.strength))

class Bad(Strength):
    def picture(self, frame, rng):
        return frame.astype(float)
"""
NAMES = ("shade", "speck", "shove", "jerk", "say", "bad")


def install(place: Path, text: str = PLUGIN) -> Path:
    """Put the plugin into a directory of packages; returns its metadata."""
    info = place / "my_perturbations-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    about = "Metadata-Version: 2.1\nName: my-perturbations\nVersion: 1.0\n"
    (info / "METADATA").write_text(about)
    points = "".join(f"{name} = my_perturbations\n" for name in NAMES)
    (info / "entry_points.txt").write_text(f"[envhub.perturbations]\n{points}")
    (place / "my_perturbations.py").write_text(text)
    return info
