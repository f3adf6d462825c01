"""Pictures: what envs return, as PNG and as videos that can be decoded."""

import subprocess
import sys

import av
import numpy as np
import pytest

from envhub.errors import ContractError, RuntimeUnavailable
from envhub.results.pictures import Video, check_encoder, frame_problem, png


def frames(count, height=48, width=64):
    """A square that moves to the right."""
    for index in range(count):
        frame = np.full((height, width, 3), 40, np.uint8)
        frame[8:24, 2 * index : 2 * index + 16] = (220, 30, 30)
        yield frame


def decoded(content, tmp_path):
    path = tmp_path / "video.mp4"
    path.write_bytes(content)
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        shown = [(f.pts * f.time_base, f.to_ndarray(format="rgb24")) for f in file.decode(stream)]
        return stream.codec_context.name, stream.codec_context.pix_fmt, shown


def test_a_video_has_the_frames_at_their_times(tmp_path):
    drawn = list(frames(20))
    with Video(control_hz=10) as video:
        for frame in drawn:
            video.add(frame)
        codec, format_, shown = decoded(video.finish(), tmp_path)
    assert (codec, format_) == ("h264", "yuv420p")
    times = [float(time) for time, _ in shown]
    assert times == pytest.approx([n / 10 for n in range(30)])  # the last one for a second
    for (_, seen), frame in zip(shown, drawn, strict=False):
        assert np.abs(seen.astype(int) - frame).mean() < 4


def test_the_time_of_fewer_frames_and_of_unknown_time(tmp_path):
    for hz, every, seconds in ((80, 4, 1 / 20), (0.0, 1, 1 / 20), (0.0, 2, 0.1), (1, 9, 2.0)):
        with Video(hz, every) as video:
            for frame in frames(3):
                video.add(frame)
            _, _, shown = decoded(video.finish(), tmp_path)
        assert float(shown[1][0] - shown[0][0]) == pytest.approx(seconds)


@pytest.mark.parametrize("channels", [1, 3])
def test_odd_sizes_and_gray(tmp_path, channels):
    with Video(5) as video:
        video.add(np.full((5, 7, channels), 200, np.uint8))
        _, _, shown = decoded(video.finish(), tmp_path)
    assert shown[0][1].shape == (6, 8, 3)
    assert abs(int(shown[0][1].mean()) - 200) < 6


def test_frames_of_two_sizes():
    with Video() as video:
        video.add(np.zeros((4, 4, 3), np.uint8))
        with pytest.raises(ContractError, match="those of a video have one"):
            video.add(np.zeros((6, 4, 3), np.uint8))


def test_a_video_that_is_given_up_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for frames_before in (0, 2):
        with Video() as video:
            for frame in frames(frames_before):
                video.add(frame)
            assert any(tmp_path.iterdir())
        assert not any(tmp_path.iterdir())


WITHOUT = """
import sys, types
import av
names = set(av.codecs_available) - set({missing!r})
fake = types.ModuleType("av")
fake.__dict__.update(av.__dict__)
fake.codecs_available = names
sys.modules["av"] = fake
import numpy as np
from envhub.results.pictures import Video
video = Video(10).__enter__()
video.add(np.zeros((8, 8, 3), np.uint8))
sys.stdout.buffer.write(video.finish())
"""


def test_a_pyav_without_x264_encodes_vp9(tmp_path):
    code = WITHOUT.format(missing=["libx264"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert decoded(done.stdout, tmp_path)[0] == "vp9"


def test_a_pyav_that_encodes_neither():
    code = WITHOUT.format(missing=["libx264", "libvpx-vp9"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "This PyAV encodes neither h264 nor VP9. Install the wheel" in done.stderr


def test_without_pyav(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(RuntimeUnavailable, match="Videos need PyAV: pip install av"):
        check_encoder()


@pytest.mark.parametrize(
    ("frame", "mode", "said"),
    [
        (None, None, "has no render_mode"),
        (None, "human", "returned a NoneType, not a picture, with render_mode 'human'"),
        ([1], "rgb_array", "returned a list"),
        (np.zeros((4, 4), np.uint8), "rgb_array", "returned 4x4 uint8"),
        (np.zeros((4, 4, 3)), "rgb_array", "returned 4x4x3 float64"),
        (np.zeros((4, 4, 4), np.uint8), "rgb_array", "returned 4x4x4 uint8"),
        (np.zeros((0, 4, 3), np.uint8), "rgb_array", "a frame of 0 x 4; each side must be 1 to"),
        (np.zeros((1, 9_000_000, 3), np.uint8), "rgb_array", "a frame of 1 x 9000000; each side"),
    ],
)
def test_what_is_no_picture(frame, mode, said):
    assert said in frame_problem(frame, mode)


def test_what_is_one(tmp_path):
    frame = np.random.default_rng(0).integers(0, 256, (3, 5, 3), np.uint8)
    assert frame_problem(frame, "rgb_array") is None
    (tmp_path / "frame.png").write_bytes(png(frame))
    with av.open(str(tmp_path / "frame.png")) as file:
        assert np.array_equal(next(file.decode(video=0)).to_ndarray(format="rgb24"), frame)
