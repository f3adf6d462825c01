"""Run by an environment with vla-eval: its own client, or its own server.

python peer_vla_eval.py client PORT: plays two episodes of three looks, and prints them as JSON.
python peer_vla_eval.py server: serves a policy at a free port, which it prints.
"""

import json
import sys

import anyio
import numpy as np
from vla_eval.connection import Connection
from vla_eval.model_servers.base import ModelServer
from vla_eval.model_servers.serve import serve_async


async def play(port):
    looks = []
    async with Connection(f"ws://127.0.0.1:{port}", timeout=20) as link:
        for number in range(2):
            await link.start_episode({"task": f"task {number}"})
            for step in range(3):
                observation = {
                    "states": {
                        "agent_pos": np.full(2, 0.1 * step, np.float32),
                        "environment_state": np.array([0.5, -0.25], np.float32),
                    },
                    "task_description": "go",
                }
                looks.append(np.asarray((await link.act(observation))["actions"]).tolist())
            await link.end_episode({})
        try:
            await link.act({"states": {}})
            error = ""
        except RuntimeError as exc:
            error = str(exc)
        print(json.dumps({"looks": looks, "hello": sorted(link.server_info), "error": error}))


class Steer(ModelServer):
    async def on_observation(self, obs, ctx):
        action = np.clip(5 * (obs["states"]["goal"] - obs["states"]["state"]), -1, 1)
        assert obs["images"]["front"].shape == (64, 64, 3)
        assert obs["task_description"]
        await ctx.send_action({"actions": action.astype(np.float32)})


async def serve():
    async with anyio.create_task_group() as group:
        port = await group.start(serve_async, Steer(), "127.0.0.1", 0)
        print(port, flush=True)


anyio.run(play, sys.argv[2]) if sys.argv[1] == "client" else anyio.run(serve)
