"""Run by an environment with openpi-client: its own client, and its codec.

python peer_openpi.py PORT: asks a server three times, and prints what came of it as JSON.
"""

import json
import sys

import numpy as np
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy

client = WebsocketClientPolicy("127.0.0.1", int(sys.argv[1]))
request = {
    "agent_pos": np.zeros(2, np.float32),
    "environment_state": np.array([0.5, -0.25], np.float32),
    "prompt": "go",
}
answers = [client.infer(request) for _ in range(3)]
packed = msgpack_numpy.packb({**request, "scalar": np.float32(0.5), "pixels": np.zeros((2, 2, 3))})
try:
    client.infer({"agent_pos": np.zeros(3)})
    error = ""
except RuntimeError as exc:
    error = str(exc)
print(
    json.dumps(
        {
            "numpy": np.__version__,
            "metadata": sorted(client.get_server_metadata()),
            "actions": [answer["actions"].tolist() for answer in answers],
            "timing": sorted(answers[0]),
            "packed": packed.hex(),
            "error": error,
        }
    )
)
