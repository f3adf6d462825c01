"""Has neither hooks nor make_env."""


def build():
    return None
