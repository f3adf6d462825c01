"""Installed plugins that nobody may import, for `envhub list` to find."""

from pathlib import Path

UNWANTED = ("torch", "mujoco", "metaworld", "libero", "huggingface_hub")
"""What neither `import envhub` nor a listing may import."""


def install(site: Path, count: int) -> list[str]:
    """Put plugins, and modules that nobody may want, into a directory for PYTHONPATH.

    Each of them raises when it is imported.

    Returns:
        The plugins' names.
    """
    names = [f"dummy-{number:02}" for number in range(count)]
    for name in names:
        module = name.replace("-", "_")
        info = site / f"envhub_{module}-1.0.dist-info"
        info.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: envhub-{name}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        entry_points = f"[envhub]\n{name} = envhub_{module}\n"
        (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module in (*(f"envhub_{name.replace('-', '_')}" for name in names), *UNWANTED):
        explosion = f"raise RuntimeError('{module} was imported')\n"
        (site / f"{module}.py").write_text(explosion, encoding="utf-8")
    return names
