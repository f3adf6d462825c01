"""The table of all checks: what each is about, why it matters, and how to fix what it finds.

`docs/checks.md` is made of this table.
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]
"""`error`: results would be wrong, or the env cannot be used. Only errors fail a benchmark."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule of the contract."""

    name: str
    severity: Severity
    rule: str
    """What must hold."""
    why: str
    """Why it matters."""
    fix: str
    """What to do if it does not hold."""
    group: str = ""


def _group(group: str, *rows: tuple[str, Severity, str, str, str]) -> tuple[Check, ...]:
    return tuple(Check(*row, group=group) for row in rows)


CHECKS: tuple[Check, ...] = (
    *_group(
        "Loading",
        (
            "loads", "error", "The benchmark loads in a worker.",
            "Nothing can be evaluated.",
            "Run `envhub info REF --debug` and fix what it shows.",
        ),
        (
            "listing-light", "warning", "Loading the benchmark imports no simulator and no OpenGL.",
            "`envhub list` and `info` take seconds, and fail where the simulator is missing.",
            "Import the simulator in the first reset().",
        ),
        (
            "env-made", "error", "The task's env can be made.",
            "Every episode of the task is an error.",
            "Call `make` in Python with this task and fix what it raises.",
        ),
        (
            "no-gl-before-reset", "warning", "Making an env loads no OpenGL.",
            "Reading the spaces would need a GL driver.",
            "Create the simulator and its renderer in the first reset().",
        ),
    ),
    *_group(
        "Spaces and values",
        (
            "spaces-supported", "error",
            "Both spaces are Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict or Tuple.",
            "Other spaces cannot be sent to the policy.",
            "Use one of these spaces; keys of a Dict are texts without a slash.",
        ),
        (
            "spaces-declared", "error", "The function `spaces` returns what the env has.",
            "`make_env` refuses an env whose spaces differ from the declared ones.",
            "Make both from the same function.",
        ),
        (
            "action-bounded", "warning", "The action space has finite bounds.",
            "Random actions and normalized policies need a range.",
            "Give Box a finite low and high.",
        ),
        (
            "reset-works", "error",
            "reset(seed, options) returns an observation and an info mapping.",
            "Every episode of the task is an error.",
            "Return (observation, {}) and accept seed and options by keyword.",
        ),
        (
            "step-works", "error",
            "step() returns five values, up to the end of the episode or its horizon.",
            "Episodes end with an error instead of a result.",
            "Return (observation, reward, terminated, truncated, info); raise only after the end.",
        ),
        (
            "observation-keys", "error",
            "An observation has the parts that its space names, and no others.",
            "The worker refuses the observation, or leaves out what the space lacks.",
            "Make the Dict space and the observation from the same keys.",
        ),
        (
            "observation-shape", "error", "Every array has the shape that its space says.",
            "The worker refuses the observation.",
            "Return arrays of the declared shape; images are height x width x channels.",
        ),
        (
            "observation-dtype", "error", "Every array has the dtype that its space says.",
            "Values are converted silently, and other programs refuse them.",
            "Call .astype with the dtype of the space, or declare the right dtype.",
        ),
        (
            "observation-bounds", "error", "Every value lies within its space.",
            "Policies normalize by the bounds: what lies outside is clipped or misread.",
            "Declare the bounds that hold, infinite ones where none are known.",
        ),
        (
            "observation-finite", "error", "No value is NaN or infinite.",
            "One NaN makes all further actions of a network NaN.",
            "Find the division or the diverging simulation that makes it.",
        ),
        (
            "reward-finite", "error", "The reward is one finite number.",
            "The return of the episode could not be summed up.",
            "Return a float.",
        ),
        (
            "flags-boolean", "warning", "terminated and truncated are bools.",
            "Gymnasium's own wrappers and checkers expect bools.",
            "Write bool(...) around them.",
        ),
        (
            "action-unchanged", "error", "step() leaves the action's array as it was.",
            "The caller's array would hold another action than the one recorded.",
            "Work on action.copy().",
        ),
        (
            "info-plain", "warning", "Infos hold plain values and numpy arrays.",
            "Other objects are left out: they cannot be sent to another process.",
            "Leave them out, or turn them into numbers, texts, lists and arrays.",
        ),
    ),
    *_group(
        "Repeatability",
        (
            "reset-repeats", "error",
            "Two resets with the same seed give the same observation, bit by bit.",
            "No episode can be repeated or compared.",
            "Call super().reset(seed=seed) and draw from self.np_random only.",
        ),
        (
            "trajectory-repeats", "error",
            "The same seed and actions give the same steps, bit by bit.",
            "Two evaluations of one policy differ.",
            "Draw noise from self.np_random; use no clock and no set order in step().",
        ),
        (
            "same-in-fresh-env", "error", "A second env of the task plays the same episode.",
            "Results would depend on which worker runs an episode.",
            "Draw nothing in the constructor and keep no state in modules or classes.",
        ),
        (
            "same-after-episodes", "error",
            "An episode is the same after other episodes in the same env.",
            "Results would depend on the order of episodes.",
            "Set every attribute back in reset(), or declare reuse='rebuild'.",
        ),
        (
            "same-in-other-process", "error", "Another process plays the same episode.",
            "Results would depend on the machine's processes: ids, addresses, hashes of texts.",
            "Use no id(), hash() or process id, and no order of a set.",
        ),
        (
            "seeds-differ", "warning", "Other seeds, or initial states, give other episodes.",
            "Fifty episodes would be one episode counted fifty times.",
            "Use the seed, or options['init_state'], in reset().",
        ),
        (
            "own-generators", "warning",
            "Episodes do not depend on the generators of random, numpy.random and torch.",
            "Other code in the process, such as a policy, draws from them too.",
            "Draw from self.np_random.",
        ),
        (
            "render-changes-nothing", "error", "Calling render() does not change the episode.",
            "An episode would differ when it is filmed.",
            "Draw from the state without stepping the simulation or drawing random numbers.",
        ),
        (
            "observing-equal", "error",
            "What is observed is the same whether other parts are drawn or not.",
            "Skipping frames that nobody reads would change results.",
            "Compute the state the same way in both cases, and draw only where `observing` says.",
        ),
    ),
    *_group(
        "Episodes and success",
        (
            "horizon", "error",
            "A horizon is declared, and the env does not end episodes before it.",
            "An evaluation would not know when to stop, or episodes are shorter than reported.",
            "Declare Task.horizon, or max_episode_steps on the env, with the same number.",
        ),
        (
            "nothing-after-end", "warning",
            "A step after the end raises, or says again that it has ended.",
            "An env that goes on counts steps of the next episode for the last one.",
            "Do not reset by yourself; raise, or keep terminated or truncated True.",
        ),
        (
            "no-reset-in-step", "error", "step() does not call reset().",
            "The last observation is that of another episode, with another seed.",
            "Leave resetting to the caller.",
        ),
        (
            "success-reported", "warning", "Every step's info has is_success or success.",
            "Without it a result has returns, but no success rate.",
            "Add info['is_success'] = bool(...) to every step.",
        ),
        (
            "success-boolean", "error", "The success is a bool.",
            "Numbers other than 0 and 1 are refused, and code that tests `is True` misses 1.0.",
            "Write bool(...) around it.",
        ),
        (
            "success-not-at-reset", "error", "An episode has not succeeded when it begins.",
            "A policy that does nothing would succeed.",
            "Start from states that do not fulfil the goal, and clear the flag in reset().",
        ),
        (
            "success-declared", "warning",
            "The tasks say how successes count: once, at_end or ever.",
            "Papers differ in it, and so do the rates.",
            "Declare the tasks with a hook, and Task.success with them.",
        ),
    ),
    *_group(
        "Instruction",
        (
            "instruction-present", "error", "There is an instruction.",
            "A policy that reads language is not told what to do.",
            "Give Task.description, or task_description on the env.",
        ),
        (
            "instruction-sentence", "warning", "The instruction is a sentence, not a name.",
            "Language models were not trained on names such as pick_cube_v2.",
            "Write what a person would say: 'pick up the cube'.",
        ),
        (
            "instruction-stable", "error", "The instruction does not change within an episode.",
            "A policy reads it once, at the start.",
            "Choose it in reset().",
        ),
        (
            "instruction-agrees", "error", "The env's task_description is that of its task.",
            "Two programs would tell the policy two things.",
            "Set it from the task, or remove it from the env.",
        ),
    ),
    *_group(
        "Pictures",
        (
            "renders", "warning", "The env renders with render_mode 'rgb_array'.",
            "There are no videos and no picture for `envhub try`.",
            "Set render_mode = 'rgb_array' and implement render().",
        ),
        (
            "frame-format", "error", "render() returns height x width x 3 of uint8.",
            "Video encoders take nothing else.",
            "Scale to 0..255, cast to uint8 and put the channels last.",
        ),
        (
            "frame-size", "error", "All frames have the same size.",
            "A video has one size.",
            "Render at a fixed size.",
        ),
        (
            "frame-not-black", "error", "A frame shows something.",
            "Black frames are the usual sign of a missing GL driver or light.",
            "Look at it with `envhub try`; check the camera, the light and `envhub doctor`.",
        ),
        (
            "camera-not-black", "error", "The pictures in observations show something.",
            "A policy would act blindly, and score like a random one.",
            "Look at the camera's name, position and light.",
        ),
        (
            "render-matches-camera", "error",
            "render() equals the leaf of the observation that metadata['render_leaf'] names.",
            "Videos would show something else than the policy saw.",
            "Return the same picture from both, or remove render_leaf.",
        ),
    ),
    *_group(
        "Closing",
        (
            "close-works", "error", "An env can be made, reset, stepped and closed.",
            "Workers change from task to task by closing envs.",
            "Fix what is raised; release what was created, if it was.",
        ),
        (
            "close-unused", "warning", "close() works before the first reset.",
            "Envs are made and closed to read their spaces.",
            "Check for None before you release something.",
        ),
        (
            "close-twice", "warning", "close() may be called twice.",
            "Both the caller and the interpreter's end may call it.",
            "Forget what was released, and check for None.",
        ),
        (
            "reopens", "error", "After close() another env of the task works in the same process.",
            "Workers change from task to task and back.",
            "Release global state in close(), such as a display or a physics server.",
        ),
        (
            "close-frees-memory", "error", "close() frees memory.",
            "A long evaluation would run out of memory.",
            "Drop references to the simulator, and free what its library allocated.",
        ),
        (
            "close-frees-descriptors", "error", "close() closes files and sockets.",
            "A long evaluation would run out of file descriptors.",
            "Close them, or use `with`.",
        ),
        (
            "close-frees-processes", "error", "close() ends processes.",
            "They keep the cores busy.",
            "Terminate and wait for them in close().",
        ),
        (
            "close-frees-threads", "warning", "close() ends threads.",
            "They keep memory and cores.",
            "Join them in close().",
        ),
        (
            "close-frees-gl", "error", "close() frees GL contexts.",
            "Drivers allow few contexts per process, and each holds memory of the GPU.",
            "Call free() of the context, or close() of the renderer.",
        ),
    ),
    *_group(
        "Sandbox",
        (
            "no-network", "error", "The code does not use the network.",
            "Code from the Hub runs without a network.",
            "Put data beside the code, or declare it as an asset.",
        ),
        (
            "writes-scratch", "error",
            "The code writes only below its home or temporary directory.",
            "Everything else is read-only for code from the Hub.",
            "Use tempfile, or Path.home().",
        ),
        (
            "runs-in-sandbox", "error", "The same episode runs in the sandbox.",
            "Nobody could evaluate it from the Hub without giving up protection.",
            "Run `envhub check` with --debug, and see docs/security.md for what is not allowed.",
        ),
    ),
    *_group(
        "Results and cost",
        (
            "zero-floor", "warning", "A policy that does nothing fails more often than not.",
            "The success rate would say little about a policy.",
            "Make the goal harder to reach by chance, or start farther from it.",
        ),
        (
            "random-floor", "warning", "Random actions fail more often than not.",
            "The success rate would say little about a policy.",
            "Make the goal harder to reach by chance, or start farther from it.",
        ),
        (
            "expert-ceiling", "error", "The benchmark's expert succeeds more often than not.",
            "The task may be impossible, or the success wrong.",
            "Watch a failed episode of `envhub eval --policy expert`.",
        ),
        (
            "lerobot-converts", "error", "Observations convert to LeRobot's names.",
            "LeRobot checkpoints could not be evaluated.",
            "Follow docs/observations.md, or declare `lerobot` with a conversion of your own.",
        ),
        (
            "lerobot-complete", "warning",
            "State and image have LeRobot's names, and the action is a vector of floats.",
            "Published vision-language-action policies read both.",
            "Name them agent_pos and pixels, or declare `lerobot`.",
        ),
        (
            "memory-declared", "error", "A worker needs no more than memory_mb.",
            "`--workers auto` would start more workers than fit into memory.",
            "Declare the number that is shown.",
        ),
    ),
)  # fmt: skip

BY_NAME = {check.name: check for check in CHECKS}
