"""A plugin whose benchmark needs files that its package does not have."""

from pathlib import Path

PLUGIN = """
from pathlib import Path
import envhub, gymnasium, numpy as np

@envhub.hookimpl
def envhub_benchmarks():
    tasks = (envhub.Task("look", "look at the table", 2),)
    assets = (envhub.Asset("meshes", "owner/meshes", "TEST_MESHES"),)
    yield envhub.Benchmark("looking", "envhub_looking:make", {"near": tasks}, assets=assets)

def make(task, meshes, size=1):
    return Looking(Path(meshes))

class Looking(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))
    def __init__(self, meshes):
        self.meshes = meshes
    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        length = len((self.meshes / "table.xml").read_bytes())
        return np.zeros(1, np.float32), float(length), False, False, {}
"""


def install(place: Path) -> None:
    """Put the plugin into a directory of packages."""
    info = place / "envhub_looking-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: envhub-looking\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[envhub]\nlooking = envhub_looking\n")
    (place / "envhub_looking.py").write_text(PLUGIN)
