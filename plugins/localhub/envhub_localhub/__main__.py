"""`python -m envhub_localhub DIR`: serve a Hub to a shell until interrupted."""

import signal
from pathlib import Path

import click

from envhub_localhub.local import LocalHub


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--port", default=0, help="Where to listen; a free port if not given.")
def main(directory: Path, port: int) -> None:
    """Serve the bare git repositories of DIRECTORY as a Hugging Face Hub on loopback.

    Prints the variables that a shell has to export to use it.
    """
    signals = {signal.SIGINT, signal.SIGTERM}
    # Before any thread starts, because it would get the signals instead.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with LocalHub(directory, port=port) as hub:
        click.echo(f"export HF_ENDPOINT={hub.endpoint} HF_TOKEN={hub.token}")
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
