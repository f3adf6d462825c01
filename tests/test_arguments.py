"""The arguments of `evaluate` and `make_env`: what is wrong is said in Python's words."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from support.run_tools import WALK

import envhub
from envhub import Limits, UsageError
from envhub.arguments import (
    check_path,
    check_policy,
    check_reference,
    check_values,
    check_whole,
    check_workers,
)


class Still:
    def act(self, obs, episodes):
        return np.zeros((len(episodes), 1), np.float32)


class Mute:
    pass


WRONG = [
    ({"ref": 3}, "ref must be text or a path, found 3."),
    ({"ref": b"./x"}, "ref must be text or a path, found b'./x'."),
    ({"policy": None}, "policy must be text, a path or an object with act(obs, episodes), found"),
    ({"policy": Mute()}, "policy must be text, a path or an object with act(obs, episodes), found"),
    ({"policy": Still}, "policy must be an object, found the class Still: make one of it."),
    ({"policy": ""}, "The policy's name is empty: name one, such as random"),
    ({"policy": "ranom"}, "No policy is called 'ranom'. Did you mean 'random'?"),
    ({"suites": 3}, "suites must be text or a list of texts, found 3."),
    ({"suites": ["short", 3]}, "suites must be text or a list of texts, found 3."),
    ({"suites": ""}, "suites has an empty name: name a suite, or leave it out."),
    ({"tasks": [""]}, "tasks has an empty name: name a task, or leave it out."),
    ({"tasks": ["neer"]}, "No task is called 'neer'. Did you mean 'near'"),
    ({"instructions": ["go"]}, "instructions must be a mapping of tasks to texts, as in"),
    ({"instructions": {}}, "instructions names no task: word at least one, or leave it out."),
    ({"instructions": {3: "go"}}, "instructions has a key that must be the name of a task, found"),
    ({"instructions": {"near": 3}}, "instructions, 'near' must be a text or a list of texts"),
    ({"instructions": {"near": []}}, "instructions, 'near' must be a text or a list of texts"),
    ({"instructions": {"near": " "}}, "instructions, 'near' must be text that is not empty"),
    ({"instructions": {"near": ["go", 3]}}, "instructions, 'near' must be text that is not empty"),
    ({"instructions": {"near": "x" * 10_001}}, "has a text of 10,001 characters; 10,000 at most"),
    ({"instructions": {"neer": "go"}}, "No task is called 'neer'. Did you mean 'near'"),
    ({"episodes": 0}, "episodes must be a whole number of at least 1, found 0."),
    ({"episodes": "3"}, "episodes must be a whole number of at least 1, found '3'."),
    ({"episodes": 2.5}, "episodes must be a whole number of at least 1, found 2.5."),
    ({"episodes": True}, "episodes must be a whole number of at least 1, found True."),
    ({"episodes": 10**9}, "a run has at most 1,000,000: choose fewer"),
    ({"seed": -1}, "seed must be a whole number from 0 to 4611686018427387904, found -1."),
    ({"seed": 2**80}, "seed must be a whole number from 0 to 4611686018427387904, found 12"),
    ({"workers": -1}, "workers must be a whole number from 0 to 4096, found -1."),
    ({"workers": 5000}, "workers must be a whole number from 0 to 4096, found 5000."),
    ({"workers": "many"}, "workers must be a whole number, None or 'auto', found 'many'."),
    ({"policy_processes": 0}, "policy_processes must be a whole number from 1 to 256, found 0."),
    ({"policy_processes": True}, "policy_processes must be a whole number from 1 to 256, found"),
    ({"policy_processes": None}, "policy_processes must be a whole number from 1 to 256, found"),
    ({"policy_processes": "x"}, "policy_processes must be a whole number or 'auto', found 'x'."),
    ({"max_steps": 0}, "max_steps must be a whole number of at least 1, found 0."),
    ({"retries": -1}, "retries must be a whole number of at least 0, found -1."),
    ({"retries": None}, "retries must be a whole number of at least 0, found None."),
    ({"max_errors": 0}, "max_errors must be a whole number of at least 1, found 0."),
    ({"env_args": [1]}, "env_args must be a mapping of names to values, found [1]."),
    ({"env_args": {1: 2}}, "env_args has a key that must be a name, found 1."),
    ({"env_args": {"a b": 2}}, "env_args has a key that must be a name, found 'a b'."),
    ({"env_args": {"x": np.zeros(3)}}, "env_args['x'] must be a finite number, text, a bool or"),
    ({"env_args": {"x": [b""]}}, "env_args['x'] must be a finite number, text, a bool or None, or"),
    (
        {"env_args": {"x": {1: 2}}},
        "env_args['x'] must be a finite number, text, a bool or None, or",
    ),
    ({"env_args": {"x": float("nan")}}, "env_args['x'] must be a finite number, text, a bool or"),
    ({"policy_args": {"x": 2**64}}, "policy_args['x'] must be a finite number, text, a bool or"),
    ({"limits": 3}, "limits must be a Limits, as in Limits(step=10), found 3."),
    ({"limits": Limits(step=0)}, "limits.step must be a positive number of seconds, found 0."),
    ({"limits": Limits(act="9")}, "limits.act must be a positive number of seconds, found '9'."),
    ({"out": ""}, "out must be a path, found ''."),
    ({"out": 3}, "out must be text or a path, found 3."),
    ({"out": "~nobody-there/x"}, "~nobody-there/x is in the home of somebody unknown"),
    ({"resume": "runs/x"}, "resume must be True or False, found 'runs/x'."),
    ({"resume": True}, "resume needs the run's directory: give out too."),
    ({"progress": True}, "progress must be a function, found True."),
    ({"on_episode": "print"}, "on_episode must be a function, found 'print'."),
    ({"trust_remote_code": "yes"}, "trust_remote_code must be True or False, found 'yes'."),
    ({"sandbox": "docker"}, "sandbox must be one of auto, bubblewrap, landlock, none, found 'doc"),
    (
        {"runtime": None},
        "runtime must be auto, here, isolated or the name of a plugin's runtime, found None.",
    ),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[f"{c}"[:40] for c, _ in WRONG])
def test_a_wrong_argument_is_named(tmp_path, monkeypatch, changes, said):
    monkeypatch.chdir(tmp_path)
    arguments = {"ref": str(WALK), "workers": 0, "episodes": 1, **changes}
    with pytest.raises(UsageError, match=re.escape(said)):
        envhub.evaluate(**arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ref": 3}, "ref must be text or a path, found 3."),
        ({"n_envs": 0}, "n_envs must be a whole number from 1 to 4096, found 0."),
        ({"n_envs": "2"}, "n_envs must be a whole number from 1 to 4096, found '2'."),
        ({"tasks": [1]}, "tasks must be text or a list of texts, found 1."),
        ({"env_args": {"x": b""}}, "env_args['x'] must be a finite number"),
        ({"limits": 3}, "limits must be a Limits"),
        ({"sandbox": ""}, "sandbox must be one of"),
        ({"private": 1}, "private must be True or False, found 1."),
    ],
)
def test_make_env_says_the_same(changes, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        envhub.make_env(**{"ref": str(WALK), **changes})


def test_what_is_meant_is_taken(tmp_path):
    assert check_reference(tmp_path) == str(tmp_path)
    assert check_reference(Path("walk/env.py")) == "./walk/env.py"
    assert check_policy(Path("steer.py")) == "./steer.py"
    assert check_whole("episodes", np.int64(3), 1) == 3
    assert (check_workers("auto"), check_workers(None), check_workers(2)) == (None, None, 2)
    assert check_path("out", "~") == Path.home()
    nested = {"a": [1, {"b": [None, "c", 2.5]}], "d": {}}
    assert check_values("env_args", nested) == nested
