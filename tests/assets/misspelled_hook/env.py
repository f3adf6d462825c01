"""Misses an s."""

import envhub


@envhub.hookimpl
def envhub_benchmark():
    return []
