"""The descriptions of the 50 tasks, and the suites."""

from envhub import Task

HORIZON = 500
"""Meta-World's own `max_path_length`."""

_DESCRIPTIONS = {
    "assembly-v3": "Pick up the wrench by its handle and slip its ring over the upright peg.",
    "basketball-v3": "Pick up the ball and drop it through the basketball hoop.",
    "bin-picking-v3": "Take the block out of one bin and put it into the other bin.",
    "box-close-v3": "Pick up the lid and set it on the open box.",
    "button-press-topdown-v3": "Press the button on top of the box down from above.",
    "button-press-topdown-wall-v3": "Reach over the wall and press the button down from above.",
    "button-press-v3": "Press the button on the front of the box.",
    "button-press-wall-v3": "Reach around the wall and press the button behind it.",
    "coffee-button-v3": "Push the button of the coffee machine.",
    "coffee-pull-v3": "Pull the mug away from the coffee machine to the goal.",
    "coffee-push-v3": "Push the mug under the spout of the coffee machine.",
    "dial-turn-v3": "Turn the dial by half a turn.",
    "disassemble-v3": "Lift the wrench's ring off the upright peg.",
    "door-close-v3": "Push the open door shut.",
    "door-lock-v3": "Turn the door's latch to lock it.",
    "door-open-v3": "Pull the door open by its handle.",
    "door-unlock-v3": "Turn the door's latch to unlock it.",
    "hand-insert-v3": "Put the gripper down into the hole.",
    "drawer-close-v3": "Push the drawer shut.",
    "drawer-open-v3": "Pull the drawer open by its handle.",
    "faucet-open-v3": "Turn the faucet's lever to open it.",
    "faucet-close-v3": "Turn the faucet's lever to close it.",
    "hammer-v3": "Pick up the hammer and drive the nail into the wall with it.",
    "handle-press-side-v3": "Press the handle down; it is mounted sideways.",
    "handle-press-v3": "Press the handle down.",
    "handle-pull-side-v3": "Pull the handle up; it is mounted sideways.",
    "handle-pull-v3": "Pull the handle up.",
    "lever-pull-v3": "Pull the lever up until it stands upright.",
    "pick-place-wall-v3": "Pick up the block and carry it over the wall to the goal.",
    "pick-out-of-hole-v3": "Take the block out of the hole and lift it to the goal.",
    "pick-place-v3": "Pick up the block and bring it to the goal.",
    "plate-slide-v3": "Slide the plate forward into the cabinet.",
    "plate-slide-side-v3": "Slide the plate sideways into the cabinet.",
    "plate-slide-back-v3": "Slide the plate back out of the cabinet.",
    "plate-slide-back-side-v3": "Slide the plate sideways out of the cabinet.",
    "peg-insert-side-v3": "Pick up the peg and push it sideways into the hole.",
    "peg-unplug-side-v3": "Pull the peg sideways out of its hole.",
    "soccer-v3": "Push the ball into the soccer goal.",
    "stick-push-v3": "Pick up the stick and push the thermos to the goal with it.",
    "stick-pull-v3": "Pick up the stick, hook the thermos's handle and pull it to the goal.",
    "push-v3": "Push the puck to the goal.",
    "push-wall-v3": "Push the puck around the wall to the goal.",
    "push-back-v3": "Pull the block back towards the robot to the goal.",
    "reach-v3": "Move the gripper to the goal.",
    "reach-wall-v3": "Move the gripper over the wall to the goal.",
    "shelf-place-v3": "Pick up the block and put it on the shelf.",
    "sweep-into-v3": "Sweep the block over the table into the hole.",
    "sweep-v3": "Sweep the block over the edge of the table.",
    "window-open-v3": "Slide the window open by its handle.",
    "window-close-v3": "Slide the window shut by its handle.",
}
"""In the order of Meta-World's MT50."""

_MT10 = (
    "reach-v3",
    "push-v3",
    "pick-place-v3",
    "door-open-v3",
    "drawer-open-v3",
    "drawer-close-v3",
    "button-press-topdown-v3",
    "peg-insert-side-v3",
    "window-open-v3",
    "window-close-v3",
)

# The groups by difficulty of published results; the tasks in none of these three are easy.
_MEDIUM = (
    "basketball-v3",
    "bin-picking-v3",
    "box-close-v3",
    "coffee-pull-v3",
    "coffee-push-v3",
    "hammer-v3",
    "peg-insert-side-v3",
    "push-wall-v3",
    "soccer-v3",
    "sweep-v3",
    "sweep-into-v3",
)
_HARD = (
    "assembly-v3",
    "hand-insert-v3",
    "pick-out-of-hole-v3",
    "pick-place-v3",
    "push-v3",
    "push-back-v3",
)
_VERY_HARD = (
    "shelf-place-v3",
    "disassemble-v3",
    "stick-pull-v3",
    "stick-push-v3",
    "pick-place-wall-v3",
)


def suites() -> dict[str, tuple[Task, ...]]:
    """Return every suite with its tasks."""
    tasks = {name: Task(name, description, HORIZON) for name, description in _DESCRIPTIONS.items()}
    harder = {*_MEDIUM, *_HARD, *_VERY_HARD}
    names = {
        "mt10": _MT10,
        "mt50": tuple(tasks),
        "easy": tuple(name for name in tasks if name not in harder),
        "medium": _MEDIUM,
        "hard": _HARD,
        "very_hard": _VERY_HARD,
    }
    return {suite: tuple(tasks[name] for name in chosen) for suite, chosen in names.items()}
