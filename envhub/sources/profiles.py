"""The kinds of files that are fetched from the Hub: where they are, how much, and which."""

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from envhub.errors import SourceUnavailable

Repositories = Literal["models", "datasets"]
_GB = 2**30
_PICKLES = ("*.bin", "*.ckpt", "*.joblib", "*.pickle", "*.pkl", "*.pt", "*.pth")
"""Files that can run code when they are loaded; weights are often stored in them."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is fetched of one kind of repository. Patterns are for names, without directories."""

    kind: str
    """As a sentence has it: "benchmark", "checkpoint"."""
    repositories: Repositories
    """The part of the Hub that has them."""
    folder: str
    """The directory of the cache that stores them."""
    max_files: int
    max_bytes: int
    advice: str
    """What to do about a repository with more files or bytes."""
    only: tuple[str, ...] = ("*",)
    """Files of other names are left out."""
    left_out: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    """At least one file must have such a name."""
    resumes: bool = False
    """Whether a fetch that fails keeps what it has, and the next one continues."""

    def wants(self, path: str) -> bool:
        """Whether a file is fetched."""
        return _matches(path, self.only) and not _matches(path, self.left_out)

    def check(self, subject: str, sizes: dict[str, int]) -> None:
        """Check the files that a repository has.

        Args:
            subject: The repository, for errors.
            sizes: The bytes of its files, also of those that are left out, by path.

        Raises:
            SourceUnavailable: They are too many, too large, or not those of this kind.
        """
        chosen = {path: size for path, size in sizes.items() if self.wants(path)}
        total = sum(chosen.values())
        if len(chosen) > self.max_files or total > self.max_bytes:
            raise SourceUnavailable(
                f"{subject} has {len(chosen)} files of {total / 2**20:.0f} MB; a {self.kind} may "
                f"have {self.max_files} of {self.max_bytes / 2**20:.0f} MB. {self.advice}"
            )
        if self.needed and not any(_matches(path, self.needed) for path in chosen):
            raise SourceUnavailable(self._missing(subject, sorted(sizes)))

    def _missing(self, subject: str, paths: list[str]) -> str:
        problem = f"{subject} has no file {' or '.join(self.needed)}, as a {self.kind} must."
        pickles = [path for path in paths if _matches(path, _PICKLES)]
        if not pickles:
            return f"{problem} Check the name of the repository."
        return (
            f"{problem} It has {pickles[0]}, a pickle, which can run code when it is loaded and is "
            "never fetched. Ask its author for safetensors."
        )


BENCHMARK = Profile(
    "benchmark",
    "models",
    folder="sources",
    max_files=2000,
    max_bytes=500 * 2**20,
    advice="Its author can move data to a dataset.",
    # Checkpoints and data sets, which a benchmark's code does not need, and compiled code, which
    # Python could run instead of the files that were read.
    left_out=(
        "*.arrow", "*.bin", "*.ckpt", "*.gguf", "*.h5", "*.hdf5", "*.mp4", "*.onnx", "*.parquet",
        "*.pkl", "*.pt", "*.pth", "*.pyc", "*.safetensors", "*.tar", "*.tar.*", "*.tflite", "*.zip",
        ".gitattributes",
    ),
)  # fmt: skip
ASSETS = Profile(
    "set of assets",
    "datasets",
    folder="assets",
    max_files=20_000,
    max_bytes=20 * _GB,
    advice="Download what is needed yourself, and name its directory.",
    left_out=(".*", "*.pyc", "*.so"),  # LIBERO's set has 552 files of 0.5 GB
    resumes=True,
)
CHECKPOINT = Profile(
    "checkpoint",
    "models",
    folder="checkpoints",
    max_files=500,
    max_bytes=100 * _GB,  # a policy of 7 billion parameters has 15 GB, or 30 in full precision
    advice="Name a repository that has one checkpoint only.",
    only=("*.json", "*.safetensors"),
    needed=("*.safetensors",),
    resumes=True,
)
_READ_AS_DATA = ("*.json", "*.model", "*.txt")
"""Configurations, vocabularies, and the models of SentencePiece: never templates, never code."""
TOKENIZER = Profile(
    "tokenizer",
    "models",
    folder="tokenizers",
    max_files=200,
    max_bytes=_GB,  # the vocabularies of large models have 40 MB
    advice="Download what is needed yourself, and name its directory.",
    only=_READ_AS_DATA,
    needed=("*.json",),
    resumes=True,
)
MODEL = Profile(
    "model",
    "models",
    folder="models",
    max_files=500,
    max_bytes=40 * _GB,  # 7 billion parameters in full precision, and what is beside them
    advice="Download what is needed yourself, and name its directory.",
    only=(*_READ_AS_DATA, "*.safetensors"),
    needed=("*.safetensors",),
    resumes=True,
)
RUN = Profile(
    "run",
    "datasets",
    folder="published-runs",
    max_files=20_000,
    max_bytes=20 * _GB,  # with videos
    advice="Name a repository that has one run only.",
    only=("*.html", "*.json", "*.jsonl", "*.md", "*.mp4", "*.npy", "*.zip"),
    needed=("run.json",),
    resumes=True,
)
PROFILES = (BENCHMARK, ASSETS, CHECKPOINT, TOKENIZER, MODEL, RUN)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch(name, pattern) for pattern in patterns)
