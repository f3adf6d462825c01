"""Declares more than a file may."""

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("count", "count to three", horizon=3)
    for name in ("one", "two"):
        yield envhub.Benchmark(name, ":make", {"all": (task,)})
