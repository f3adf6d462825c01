"""Perturbations of any benchmark. Importing this package imports no simulator."""

from collections.abc import Iterable

import envhub
from envhub import Perturbation


@envhub.hookimpl
def envhub_perturbations() -> Iterable[Perturbation]:
    """Declare the perturbations."""
    yield Perturbation(
        name="action",
        make="envhub_perturbations.actions:ActionNoise",
        description="adds noise to every action; its standard deviation, as a share of half the "
        "range of each number",
        most=1.0,
        changes=("actions",),
    )
    yield Perturbation(
        name="blur",
        make="envhub_perturbations.pictures:Blur",
        description="blurs pictures; the standard deviation of the Gaussian, as a share of the "
        "picture's width",
        most=0.1,
        changes=("pictures",),
    )
    yield Perturbation(
        name="camera",
        make="envhub_perturbations.scene:CameraPose",
        description="moves every camera that stands in the scene by so many metres and turns it "
        "by as many radians, in directions drawn per episode",
        most=1.0,
        changes=("pictures",),
        needs=("mujoco", "observe"),
    )
    yield Perturbation(
        name="instruction",
        make="envhub_perturbations.words:Paraphrase",
        description="words the instruction otherwise; the share of a list of paraphrases that one "
        "is drawn from, those nearest to the original first; or texts by task, in a JSON file",
        most=1.0,
        changes=("instruction",),
        texts=True,
    )
    yield Perturbation(
        name="light",
        make="envhub_perturbations.scene:Light",
        description="makes lights brighter or darker by that share, tints them by half of it and "
        "turns them by as many radians, drawn per episode",
        most=1.0,
        changes=("pictures",),
        needs=("mujoco", "observe"),
    )
    yield Perturbation(
        name="noise",
        make="envhub_perturbations.pictures:Noise",
        description="adds noise to pictures; its standard deviation, as a share of white",
        most=1.0,
        changes=("pictures",),
    )
    yield Perturbation(
        name="occlusion",
        make="envhub_perturbations.pictures:Occlusion",
        description="covers a grey square of pictures, in a place drawn per episode; its share of "
        "the picture",
        most=1.0,
        changes=("pictures",),
    )
