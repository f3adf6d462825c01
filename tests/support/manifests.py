"""The content of a `run.json`, as far as comparing runs needs it."""

INFO = {
    "format": 1,
    "benchmark": {
        "ref": "./env",
        "name": "env",
        "kind": "file",
        "files": {"env.py": "sha256:aa"},
        "env_args": {},
        "plugins": [],
    },
    "plan": {
        "suites": {"s": ["near", "far"]},
        "episodes": 10,
        "seed": 0,
        "max_steps": None,
        "reuse": "task",
        "tasks": {
            "near": {"horizon": 10, "success": "any", "init_states": 0},
            "far": {"horizon": 10, "success": "any", "init_states": 0},
        },
    },
    "policy": {"kind": "named", "ref": "zero", "args": {}},
    "runtime": {"packages": {"mujoco": "3.3.0"}},
    "protocol": "sha256:00",
}
