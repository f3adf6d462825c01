"""A file system of its own, which needs no rights: it is mounted in a namespace of mounts."""

import subprocess
from pathlib import Path

_HOLD = 'mount -t tmpfs -o "size=$1" tmpfs "$0" && echo mounted && exec sleep infinity'


class SmallDisk:
    """A small file system; only processes that are started with `enter` see it at its place.

    A process holds the namespace. The test itself looks into it through /proc.
    """

    def __init__(self, place: Path, size: str) -> None:
        self.place = place
        self._holder = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", _HOLD, place, size],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout.readline() == "mounted\n"

    def enter(self, cwd: Path) -> list[str]:
        """The beginning of a command line that runs in the namespace."""
        namespace = ("--user", "--mount", "--preserve-credentials", f"--target={self._holder.pid}")
        return ["nsenter", *namespace, "sh", "-c", 'cd "$0" && exec "$@"', str(cwd)]

    def seen(self, path: Path) -> Path:
        """A path on the disk, as the test can reach it."""
        return Path(f"/proc/{self._holder.pid}/root", path.relative_to("/"))

    def remount(self, options: str) -> None:
        """Change the size, or make it read-only."""
        # With the type and the source given, mount does not add the options that /proc shows: the
        # user's number among them is another one in the namespace, and the kernel refuses it.
        mount = ("mount", "-t", "tmpfs", "-o", f"remount,{options}", "tmpfs", str(self.place))
        subprocess.run([*self.enter(Path("/")), *mount], check=True)

    def close(self) -> None:
        """Let go of the namespace, and of the disk with it."""
        with self._holder as holder:
            holder.kill()
