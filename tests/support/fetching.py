"""The files of a repository that tests fetch."""

FILES = {
    "env.py": "import gymnasium\n",
    "deep/data.json": "{}",
    "model.safetensors": b"\0" * 100,
    "README.md": "# hello\n",
}
