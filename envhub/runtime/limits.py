"""The kernel's limits for each process in a sandbox."""

import resource

FILE_MB = 2048
"""The size of one file."""
CPU_SECONDS = 7 * 24 * 3600
"""The time of one process. Requests have limits of their own; this ends what escapes them."""
_DESCRIPTORS = 4096
_MB = 2**20


def limit(memory_mb: int | None) -> None:
    """Take on the limits that the kernel keeps for each process. They pass to all it starts.

    Memory is bounded by `RLIMIT_DATA`: what a process has for itself to write on. `RLIMIT_AS` would
    also count what is only mapped: the sparse memory that observations cross in, the address space
    that CUDA and LLVM reserve.

    Args:
        memory_mb: The private memory of one process; None leaves it unbounded.
    """
    bounds = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_MB * _MB),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
    ]
    if memory_mb is not None:
        bounds.append((resource.RLIMIT_DATA, memory_mb * _MB))
    for kind, bound in bounds:
        _, hard = resource.getrlimit(kind)
        lowest = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (lowest, lowest))
