"""From a reference to the source that a worker loads."""

from pathlib import Path

from envhub.errors import UsageError
from envhub.refs import HubRef, NameRef, PathRef, parse
from envhub.types import PluginSource, Source


def find_source(text: str) -> Source:
    """What a reference means.

    Raises:
        UsageError: There is no such benchmark.
    """
    match parse(text):
        case NameRef(name=name):
            from envhub.plugins import find

            find(name)
            return PluginSource(name)
        case PathRef() as ref:
            from envhub.sources.local import locate

            return locate(ref)
        case HubRef() as ref:
            if Path(text).exists():
                raise UsageError(
                    f"{text} means a Hub repository; for the local path write ./{text}"
                )
            raise UsageError(
                f"{ref} is a Hub repository; this version loads local and installed ones."
            )
