"""The directory of an explanation: a page with pictures, the same as JSON, and pins."""

import json
from pathlib import Path

from envhub.errors import RunDirectoryError
from envhub.files import write_whole
from envhub.results.differences import PictureDifference, side_by_side
from envhub.results.explanation import Explanation
from envhub.results.pictures import png
from envhub.results.report.templates import render_page

PAGE, DATA, PINS, PICTURES = "explanation.html", "explanation.json", "runtime.txt", "pictures"


def check_place(directory: Path) -> None:
    """Refuse a directory that an explanation must not be written into, before anything is played.

    Raises:
        RunDirectoryError: It holds something else, or is no directory.
    """
    try:
        held = directory.exists() and any(directory.iterdir())
    except OSError as exc:
        raise RunDirectoryError(
            f"{directory} cannot be written to: {exc.strerror}. Name another directory with --out."
        ) from exc
    if held and not (directory / DATA).is_file():
        raise RunDirectoryError(
            f"{directory} holds something else than an explanation. Name another directory with "
            "--out."
        )


def write_explanation(found: Explanation, directory: Path) -> Path:
    """Write what was found into a directory, and return its page.

    Args:
        found: The explanation.
        directory: Made if it is not there; may hold an earlier explanation.

    Raises:
        RunDirectoryError: It cannot be written.
    """
    try:
        (directory / PICTURES).mkdir(parents=True, exist_ok=True)
        for old in (directory / PICTURES).glob("*.png"):
            old.unlink()
        shown = [_keep(each, number, directory) for number, each in enumerate(found.pictures, 1)]
        write_whole(directory / DATA, json.dumps(found.to_json(), indent=2).encode(), durable=False)
        if found.pins is not None:
            write_whole(directory / PINS, found.pins.encode(), durable=False)
        page = render_page(
            "explanation.html",
            pictures=True,
            title="Why two results differ",
            shown=shown,
            differences=any(each.alike for each in found.pictures),
            a=found.a,
            b=found.b or ", ".join(f"{n} {v}" for n, v in found.versions.items()),
            verdict=found.verdict,
            layers=found.layers,
        )
        path = directory / PAGE
        write_whole(path, page.encode(errors="backslashreplace"), durable=False)
    except OSError as exc:
        raise RunDirectoryError(
            f"The explanation cannot be written to {directory}: {exc.strerror}. Name another "
            "directory with --out."
        ) from exc
    return path


def _keep(found: PictureDifference, number: int, directory: Path) -> dict[str, object]:
    """Write a picture, and return what the page says of it."""
    picture = side_by_side(found)
    file = f"{PICTURES}/{number}.png"
    write_whole(directory / file, png(picture), durable=False)
    words = "the same" if found.finding == "same" else found.words
    name = f"{found.suite}/{found.task}:{found.episode} {found.leaf}"
    height, width = picture.shape[:2]
    return {"name": name, "words": words, "file": file, "width": width, "height": height}
