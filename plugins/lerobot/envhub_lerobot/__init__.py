"""LeRobot checkpoints as policies of EnvHub: `--policy lerobot:DIRECTORY`.

`provider` and what it imports (`checkpoint`, `models`, `model_files`) run in the host: they obtain
a checkpoint's files and say what they are. `policy` and what it imports (`acting`, `draws`,
`features`, `trained`, `outliers`, `sentences`) run in the policy's process, on an interpreter that
has LeRobot and need not have this package installed. `reading`, `contents`, `hub_names`,
`old_format` and `sidecar` are of both: what a checkpoint may say, and the private copy of it that
LeRobot gets. `program` has both in one process: `envhub.load_lerobot_policy`.
"""
