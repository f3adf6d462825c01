"""Reads back what a logger has written, with the tool's own package; run in its environment.

python logged.py TOOL DIRECTORY    prints JSON: `values` (name: [[step, value], ...]), `about`,
                                   `videos`
"""

import json
import struct
import sys
from pathlib import Path


def tensorboard(place):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(place / "run" / "tensorboard"))
    events.Reload()
    tags = events.Tags()
    table = events.Tensors("run/text_summary")[0].tensor_proto.string_val[0].decode()
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {
        "values": {
            name: [[point.step, point.value] for point in events.Scalars(name)]
            for name in tags["scalars"]
        },
        "about": {key: value.strip("`") for key, value in rows},
        "videos": [
            [name.removeprefix("failures/"), events.Images(name)[0].encoded_image_string[:4].hex()]
            for name in tags["images"]
        ],
    }


def mlflow(place):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{place}/.mlflow/mlflow.db")
    experiment = client.get_experiment_by_name("envhub")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    return {
        "values": {
            name: [
                [each.step, each.value] for each in client.get_metric_history(run.info.run_id, name)
            ]
            for name in run.data.metrics
        },
        "about": run.data.params,
        "videos": [
            [folder.path.removeprefix("failures/").replace("_x3a_", ":"), _begin(client, run, file)]
            for folder in client.list_artifacts(run.info.run_id, "failures")
            for file in client.list_artifacts(run.info.run_id, folder.path)
        ],
    }


def _begin(client, run, file):
    return Path(client.download_artifacts(run.info.run_id, file.path)).read_bytes()[4:8].hex()


def wandb(place):
    [file] = place.glob("run/wandb/offline-run-*/run-*.wandb")
    records = list(_wandb_records(file.read_bytes()))
    [config] = [
        item.value_json
        for record in records
        for item in record.run.config.update
        if item.key == "run"
    ]
    values, videos = {}, []
    for record in records:
        items = {_key(item): json.loads(item.value_json) for item in record.history.item}
        for key, value in items.items():
            if key[1:] == ("path",):
                video = file.parent / "files" / value
                videos.append([key[0].removeprefix("failures/"), video.read_bytes()[4:8].hex()])
            elif len(key) == 1:
                values.setdefault(key[0], []).append([items["episodes",], value])
    last = {
        _key(item): json.loads(item.value_json)
        for record in records
        for item in record.summary.update
    }
    for key, value in last.items():
        if len(key) == 1 and key[0] not in values:
            values[key[0]] = [[None, value]]
    return {"values": values, "about": json.loads(config), "videos": videos}


def _key(item):
    return tuple(item.nested_key) or (item.key,)


def _wandb_records(data):
    """The records of an offline file: LevelDB's log format after a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    assert data[:4] == b":W&B"
    place, left, part = 7, 32768 - 7, b""
    while place < len(data):
        if left < 7:  # the rest of a block is empty
            place, left = place + left, 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        part += data[place + 7 : place + 7 + length]
        place, left = place + 7 + length, left - 7 - length
        if kind in (1, 4):  # whole, or its last part
            yield Record.FromString(part)
            part = b""


def trackio(place):
    from trackio.sqlite_storage import SQLiteStorage

    [name] = SQLiteStorage.get_runs("envhub")
    values, videos = {}, []
    for entry in SQLiteStorage.get_logs("envhub", name):
        for key, value in entry.items():
            if isinstance(value, dict):
                [file] = [
                    path
                    for path in Path(place / "trackio").rglob("*.mp4")
                    if path.name == Path(value["file_path"]).name
                ]
                videos.append([key.removeprefix("failures/"), file.read_bytes()[4:8].hex()])
            elif "/" in key:
                values.setdefault(key, []).append([entry["step"], value])
    return {
        "values": values,
        "about": SQLiteStorage.get_run_config("envhub", name),
        "videos": videos,
    }


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
