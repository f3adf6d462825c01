"""A `cfg` is built as its annotation or its default says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Optional, TypedDict, Union

import pytest

from envhub.errors import ContractError
from envhub.worker.arguments import call_make_env


@dataclass
class Camera:
    width: int = 64
    name: str = "front"


@dataclass(frozen=True)
class Arm:
    steps: int
    gain: float = 1.0
    mode: Literal["joint", "pose"] = "joint"
    start: tuple[float, ...] = ()
    scene: Path | None = None
    camera: Camera = field(default_factory=Camera)
    wrist: "Camera | None" = None
    extra: object = None
    tags: list[str] = field(default_factory=list)
    cameras: list = field(default_factory=list)
    links: Iterable[str] = ()
    reached: int = field(default=0, init=False)


class Names(TypedDict, total=False):
    a: int


class Other:
    """Neither a dataclass nor a mapping."""


def built(annotation: Any, env_args: dict[str, Any], **more: Any) -> Any:
    def make_env(n_envs=1, cfg=None, **kwargs):
        return (cfg, kwargs["left"]) if "left" in kwargs else cfg

    make_env.__annotations__["cfg"] = annotation
    make_env.__defaults__ = (1, more.get("default"))
    return call_make_env(make_env, env_args)


@pytest.mark.parametrize(
    "annotation",
    [Arm, "Arm", Arm | None, "Arm | None", Optional["Arm"], Union[None, str, Arm]],  # noqa: UP007
)
def test_a_dataclass(annotation):
    assert built(annotation, {"steps": 7}) == Arm(7)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"gain": 2}, {"gain": 2.0}),
        ({"mode": "pose"}, {"mode": "pose"}),
        ({"start": [1, 2.5]}, {"start": (1.0, 2.5)}),
        ({"scene": "a.xml"}, {"scene": Path("a.xml")}),
        ({"scene": None}, {"scene": None}),
        ({"camera": {"width": 32}}, {"camera": Camera(32)}),
        ({"wrist": {"name": "left"}}, {"wrist": Camera(name="left")}),
        ({"extra": {"any": [1]}}, {"extra": {"any": [1]}}),
        ({"tags": ["a", "b"]}, {"tags": ["a", "b"]}),
        ({"cameras": ["front", 2]}, {"cameras": ["front", 2]}),
        ({"links": ["a"]}, {"links": ["a"]}),
    ],
)
def test_values_of_its_fields(values, expected):
    cfg = built(Arm, {"steps": 1, **values})
    assert cfg == Arm(1, **expected)
    assert [type(getattr(cfg, name)) for name in expected] == [type(v) for v in expected.values()]


@pytest.mark.parametrize(
    "annotation",
    [dict, "dict", dict[str, Any], dict | None, Mapping, Mapping[str, int], Names],
)
def test_a_dict(annotation):
    assert built(annotation, {"a": 2}) == {"a": 2}


@pytest.mark.parametrize(
    "annotation", [Any, Other, "OnlyForTypeCheckers", "no type at all", "Arm.nothing", None, object]
)
def test_anything_else_is_a_namespace(annotation):
    assert built(annotation, {"a": 2}) == SimpleNamespace(a=2)


def test_what_is_not_given_is_as_in_the_default():
    assert built(Any, {"gain": 2.0}, default=Arm(9, tags=["x"])) == Arm(9, 2.0, tags=["x"])
    assert built(Any, {"a": 2}, default={"a": 1, "b": 1}) == {"a": 2, "b": 1}


def test_names_that_are_no_fields_go_to_the_other_arguments():
    assert built(Arm, {"steps": 1, "left": 5}) == (Arm(1), 5)


def test_a_cfg_without_arguments_is_made_if_it_must_be():
    def make_env(cfg: Camera):
        return cfg

    assert call_make_env(make_env, {}) == Camera()
    assert built(Arm, {}) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": "many"}, "cfg.steps must be int, found 'many'."),
        ({"steps": True}, "cfg.steps must be int, found True."),
        ({"mode": "x"}, "cfg.mode must be Literal['joint', 'pose'], found 'x'."),
        ({"start": [1, "x"]}, "cfg.start must be tuple[float, ...], found [1, 'x']."),
        ({"scene": 3}, "cfg.scene must be Path | None, found 3."),
        ({"camera": 3}, "cfg.camera must be Camera, found 3."),
        ({"cameras": "front"}, "cfg.cameras must be list, found 'front'."),
        ({"camera": {"width": "x"}}, "cfg.camera.width must be int, found 'x'."),
        (
            {"camera": {"height": 3}},
            "cfg.camera (Camera) has no field 'height'; its fields are width, name.",
        ),
        ({}, "cfg (Arm) needs values for steps."),
    ],
)
def test_wrong_values(values, message):
    def make_env(cfg: Arm):
        return cfg

    given = {"steps": 1, **values} if values else {}
    with pytest.raises(ContractError) as caught:
        call_make_env(make_env, given)
    assert str(caught.value) == message


def test_wrong_names():
    def make_env(cfg: Camera):
        return cfg

    with pytest.raises(ContractError) as caught:
        call_make_env(make_env, {"height": 3})
    assert str(caught.value) == ("cfg (Camera) has no field 'height'; its fields are width, name.")
