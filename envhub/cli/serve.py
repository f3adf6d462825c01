"""`envhub serve`: serve a policy to other programs and machines."""

from importlib import util

import click

from envhub.cli.options import (
    TERMINAL,
    WholeNumber,
    debug_option,
    env_arg_option,
    message,
    policy_options,
    policy_timeout_option,
    source_options,
)
from envhub.errors import UsageError
from envhub.options import Argument, Limits, PolicyOptions, SourceOptions
from envhub.policies.providers import missing_plugin


@click.command("serve")
@click.argument("policy")
@click.option(
    "--for",
    "ref",
    metavar="REF",
    required=True,
    help="The benchmark whose observations and actions are served.",
)
@click.option("--task", help="The task whose spaces they are.", show_default="the first")
@click.option(
    "--protocol",
    type=click.Choice(["openpi", "roboarena", "vla-eval"]),
    default="openpi",
    help="What clients speak.",
)
@click.option("--keys", help="Names in requests: ours=theirs,... or a preset.")
@click.option("--host", default="127.0.0.1", help="Address to listen at.")
@click.option("--port", type=WholeNumber(min=0, max=65535), default=8000, help="0: any free one.")
@click.option("--device", metavar="N", help="The GPU that the policy sees.")
@policy_options
@source_options
@env_arg_option
@policy_timeout_option
@debug_option
def command(
    policy: PolicyOptions,
    *,
    ref: str,
    task: str | None,
    protocol: str,
    keys: str | None,
    host: str,
    port: int,
    device: str | None,
    env_args: dict[str, Argument],
    limits: Limits,
    options: SourceOptions,
) -> None:
    """Serve POLICY, anything that `envhub eval --policy` takes, until it is interrupted.

    It reads and returns what it would in an evaluation on REF. EnvHub's own client gets the actions
    of a local run. Clients need the key in the variable ENVHUB_POLICY_KEY, if it is set.

    \b
    Examples:
        envhub serve ./policy.py --for ./my_env
        envhub serve lerobot:./pretrained_model --for libero --keys libero --port 8001
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if util.find_spec("envhub_servers") is None:
        raise missing_plugin("envhub serve", "envhub-servers")
    from envhub_servers.hosting import ServeRequest, host_policy
    from envhub_servers.reading import make_reading
    from envhub_servers.server import Listen, check_installed, serve, warn_of_exposure

    check_installed()
    if not host:
        raise UsageError("--host is empty: write an address of this machine, such as 127.0.0.1.")
    request = ServeRequest(
        policy=str(policy.name),
        ref=ref,
        args=policy.args,
        env_args=env_args,
        tasks=() if task is None else (task,),
        python=policy.python,
        device=device,
        limits=limits,
        options=options,
        reporter=TERMINAL,
    )
    hosted = host_policy(request)
    try:
        reading = make_reading(keys, hosted.leaves, protocol)
    except BaseException:
        hosted.close()
        raise
    listen = Listen(host=host, port=port, protocol=protocol)

    def ready(chosen: int) -> None:
        scheme = "ws" if protocol == "openpi" else f"{protocol}+ws"
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"{policy.name} for {ref} is served at {scheme}://{shown}:{chosen}")
        click.echo(f"It reads {', '.join(reading.keys)}.")

    warning = warn_of_exposure(host)
    if warning is not None:
        message(warning)
    serve(hosted, reading, listen, ready)
