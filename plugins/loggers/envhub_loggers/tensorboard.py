"""`--log tensorboard`: event files in `RUN/tensorboard/`; `tensorboard --logdir runs` shows all."""

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.plugins.text import metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from envhub import hookimpl
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.results.summary import Summary
from envhub_loggers.content import identity
from envhub_loggers.log import Log

FOLDER = "tensorboard"
_MOST_FRAMES = 60
"""Of an animation: a GIF of 480 x 480 has some 50 KB a frame."""
_WIDTH = 320


class _Board:
    def __init__(self, run: Run) -> None:
        self._writer = EventFileWriter(str(run.directory / FOLDER), filename_suffix=".envhub")
        self._write(0, [_table("run", identity(run.run_info))])

    def log(self, step: int, values: dict[str, float]) -> None:
        self._write(step, [_scalar(name, value) for name, value in values.items()])

    def conclude(self, step: int, values: dict[str, float]) -> None:
        self.log(step, values)

    def show(self, step: int, name: str, video: Path) -> None:
        content, width, height = _animation(video)
        picture = summary_pb2.Summary.Image(
            height=height, width=width, colorspace=3, encoded_image_string=content
        )
        self._write(step, [summary_pb2.Summary.Value(tag=f"failures/{name}", image=picture)])

    def close(self, *, complete: bool) -> None:
        self._writer.close()

    def _write(self, step: int, values: list[Any]) -> None:
        summary = summary_pb2.Summary(value=values)
        self._writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()  # so that TensorBoard shows each episode when it ends


def _scalar(name: str, value: float) -> Any:
    return summary_pb2.Summary.Value(tag=name, simple_value=value)


def _table(name: str, rows: dict[str, str]) -> Any:
    """Return a text in Markdown with a table of two columns."""
    lines = [f"| {key} | `{value.replace('|', chr(92) + '|')}` |" for key, value in rows.items()]
    text = "\n".join(["| | |", "|---|---|", *lines])
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        string_val=[text.encode()],
        tensor_shape=tensor_shape_pb2.TensorShapeProto(
            dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)]
        ),
    )
    about = metadata.create_summary_metadata(name, "")
    return summary_pb2.Summary.Value(tag=f"{name}/text_summary", metadata=about, tensor=tensor)


def _animation(video: Path) -> tuple[bytes, int, int]:
    """Return a video as GIF, which TensorBoard can show, and its size."""
    import av  # whoever drew a video has it

    with av.open(str(video)) as file:
        stream = file.streams.video[0]
        every = max(1, -(-stream.frames // _MOST_FRAMES))
        rate = float(stream.average_rate or 20)
        frames = [
            Image.fromarray(np.asarray(frame.to_ndarray(format="rgb24")))
            for number, frame in enumerate(file.decode(stream))
            if number % every == 0
        ]
    for frame in frames:
        frame.thumbnail((_WIDTH, _WIDTH))
    content = io.BytesIO()
    frames[0].save(
        content,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 * every / rate),
        loop=0,
    )
    return content.getvalue(), *frames[0].size


_log = Log(_Board)


@hookimpl
def envhub_run_started(run: Run) -> None:
    """Note the run."""
    _log.started(run)


@hookimpl
def envhub_episode_finished(run: Run, record: EpisodeRecord) -> None:
    """Log the episode."""
    _log.recorded(run, record)


@hookimpl
def envhub_run_finished(run: Run, summary: Summary) -> None:
    """Log the results."""
    _log.finished(run, summary)
