"""A seccomp filter: system calls that no worker needs fail, and new processes need permission.

The filter lists the calls that fail, some only with certain arguments, and allows the rest. Calls
that are newer than this list fail as if the kernel did not know them. A new process or thread
waits for the supervisor's answer, which limits their number: `RLIMIT_NPROC` counts all processes of
a user, and does not apply to root.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

_EVERY_BIT = 0xFFFFFFFF


class Rule(NamedTuple):
    """A system call that fails: always, or depending on the lower half of one argument."""

    call: str
    error: int = errno.EPERM
    """The error number; 0: the call does nothing and reports success."""
    argument: int | None = None
    """The index of the argument; None: the call always fails."""
    values: tuple[int, ...] = ()
    mask: int = _EVERY_BIT
    """The bits of the argument that are compared with `values`."""
    listed: bool = True
    """True: fail if the argument is one of the values. False: fail if it is not."""


def refuse(calls: str, error: int = errno.EPERM) -> tuple[Rule, ...]:
    """Let calls, separated by spaces, always fail."""
    return tuple(Rule(call, error) for call in calls.split())


def only(call: str, argument: int, *values: int, mask: int = _EVERY_BIT) -> Rule:
    """Let a call fail unless its argument is one of the values."""
    return Rule(call, errno.EPERM, argument, values, mask, listed=False)


def never(call: str, argument: int, *values: int, mask: int = _EVERY_BIT) -> Rule:
    """Let a call fail if its argument is one of the values."""
    return Rule(call, errno.EPERM, argument, values, mask)


def why_unavailable() -> str | None:
    """Return the reason why filters do not work here; None if they work."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        return f"its seccomp filter supports {' and '.join(_MACHINES)}, not {machine}"
    if _seccomp(_GET_ACTION_AVAIL, 0, struct.pack("=I", _ASK)) != 0:
        return f"seccomp: {os.strerror(ctypes.get_errno())}"
    return None


def install(rules: Iterable[Rule]) -> int:
    """Install the filter for good, for the calling thread and its children.

    The caller must have set `no_new_privs`.

    Returns:
        A descriptor for `supervisor.supervise`. Its holder decides about new processes, so it must
        be closed here before foreign code is loaded.
    """
    program = assemble(rules, os.uname().machine)
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("=HxxxxxxQ", len(program) // _INSTRUCTION.size, ctypes.addressof(code))
    for flags in (_LISTEN | _WAIT_KILLABLE, _LISTEN):  # the former since Linux 5.19
        listener = _seccomp(_SET_MODE_FILTER, flags, head)
        if listener >= 0:
            return listener
    error = ctypes.get_errno()
    raise OSError(error, f"The seccomp filter could not be installed: {os.strerror(error)}")


# Assembling: struct sock_filter of linux/filter.h, struct seccomp_data of linux/seccomp.h

_INSTRUCTION = struct.Struct("=HBBI")

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06

_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

_ALLOW, _ASK, _FAIL, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2

_LISTEN, _WAIT_KILLABLE = 1 << 3 | 1 << 2, 1 << 5
"""NEW_LISTENER with SPEC_ALLOW, without which older kernels slow the process down, and
WAIT_KILLABLE_RECV."""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of the table below, and the architecture's number in linux/audit.h."""

_ASKED = ("clone", "fork", "vfork")

_LAST = 469
"""The number of the newest call that was considered, `file_setattr` of Linux 6.17."""


def assemble(rules: Iterable[Rule], machine: str) -> bytes:
    """Return the kernel's program for the rules; calls that the machine lacks are left out."""
    column, architecture = _MACHINES[machine]
    asked = [_CALLS[call][column] for call in _ASKED]
    blocks: dict[int | None, list[bytes]] = {number: [] for number in asked}
    for rule in rules:
        blocks.setdefault(_CALLS[rule.call][column], []).extend(_compile(rule))
    blocks.pop(None, None)
    code = [
        _INSTRUCTION.pack(_LOAD, 0, 0, _ARCH),
        _INSTRUCTION.pack(_EQUAL, 1, 0, architecture),
        _INSTRUCTION.pack(_RETURN, 0, 0, _KILL),
        _INSTRUCTION.pack(_LOAD, 0, 0, _NUMBER),
        _INSTRUCTION.pack(_AT_LEAST, 0, 1, _LAST + 1),  # also the calls of the x32 architecture
        _INSTRUCTION.pack(_RETURN, 0, 0, _FAIL | errno.ENOSYS),
    ]
    for number, block in blocks.items():
        end = _INSTRUCTION.pack(_RETURN, 0, 0, _ASK if number in asked else _ALLOW)
        code += [_INSTRUCTION.pack(_EQUAL, 0, len(block) + 1, number), *block, end]
    return b"".join((*code, _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)))


def _compile(rule: Rule) -> list[bytes]:
    fail = _INSTRUCTION.pack(_RETURN, 0, 0, _FAIL | rule.error)
    if rule.argument is None:
        return [fail]
    code = [
        _INSTRUCTION.pack(_LOAD, 0, 0, _ARGUMENTS + 8 * rule.argument),
        _INSTRUCTION.pack(_AND, 0, 0, rule.mask),
    ]
    if rule.listed:
        for value in rule.values:
            code += [_INSTRUCTION.pack(_EQUAL, 0, 1, value), fail]
        return code
    for jump, value in zip(range(len(rule.values), 0, -1), rule.values, strict=True):
        code.append(_INSTRUCTION.pack(_EQUAL, jump, 0, value))  # over the others and the failure
    return [*code, fail]


def _seccomp(operation: int, flags: int, argument: bytes) -> int:
    number = _CALLS["seccomp"][_MACHINES[os.uname().machine][0]]
    words = (ctypes.c_long(number or 0), ctypes.c_uint(operation), ctypes.c_uint(flags), argument)
    return int(ctypes.CDLL(None, use_errno=True).syscall(*words))


# What fails

_CLONE_NEW = 0x7E020080
"""Every flag of `clone` that creates a namespace."""

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16

_STREAM, _SEQPACKET, _SOCKET_TYPE = 1, 5, 0xF

_TYPED_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX type into a terminal."""

_FILE_SYSTEM_IOCTLS = (ord("f") << 8, ord("X") << 8, 0x94 << 8)
"""They change files that are open for reading only."""

_SIGNAL_OWNER = (8, 15)
"""F_SETOWN and F_SETOWN_EX make the kernel send a signal."""

_FCNTL = (*range(18), 36, 37, 38, 1025, *range(1027, 1039))
"""The commands of asm-generic/fcntl.h and linux/fcntl.h, as of Linux 6.17, but F_SETLEASE (1024),
which holds up whoever opens a file, and F_NOTIFY (1026), which tells when others use a directory.
F_SETDELEG of Linux 6.19 is such a lease too; what is younger than the list fails as if the kernel
did not know it."""

_ALWAYS = (
    *refuse("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd"),
    *refuse("mount umount2 pivot_root chroot unshare setns open_by_handle_at fanotify_init"),
    *refuse("open_tree open_tree_attr move_mount mount_setattr fsopen fsconfig fsmount fspick"),
    *refuse("bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register"),
    *refuse("add_key request_key keyctl memfd_secret modify_ldt ioperm iopl syslog vhangup acct"),
    *refuse("init_module finit_module delete_module kexec_load kexec_file_load reboot"),
    *refuse("swapon swapoff quotactl quotactl_fd sethostname setdomainname"),
    *refuse("settimeofday clock_settime adjtimex clock_adjtime"),
    # Its flags are in memory, where no filter sees them; the C library falls back to clone.
    *refuse("clone3", errno.ENOSYS),
    only("clone", 0, 0, mask=_CLONE_NEW),
    never("ioctl", 1, *_TYPED_INPUT),
    Rule("fcntl", errno.EINVAL, 1, _FCNTL, listed=False),
    *refuse("inotify_add_watch"),  # tells of others' use of a file, as F_NOTIFY does
)

_UNGUARDED_METADATA = (
    # Programs that copy files call these and do not expect them to fail.
    *refuse("chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat", 0),
    *refuse("utime utimes futimesat utimensat", 0),
    *refuse("setxattr lsetxattr fsetxattr setxattrat", errno.EOPNOTSUPP),
    *refuse("removexattr lremovexattr fremovexattr removexattrat file_setattr", errno.EOPNOTSUPP),
)

_SHARED_WITH_OTHERS = (
    *refuse("shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl"),
    *refuse("mq_open mq_unlink migrate_pages move_pages"),
    never("ioctl", 1, *_FILE_SYSTEM_IOCTLS, mask=0xFF00),
    # These take a process, or 0 for the caller.
    *(only(call, 0, 0) for call in ("prlimit64", "sched_setaffinity", "sched_setattr")),
    *(only(call, 0, 0) for call in ("sched_setparam", "sched_setscheduler")),
    *(only("setpriority", argument, 0) for argument in (0, 1)),
    only("ioprio_set", 0, 1),
    only("ioprio_set", 1, 0),
)


def rules_in_namespaces(*, network: bool, root: bool) -> tuple[Rule, ...]:
    """Return the rules for a process whose namespaces hide files and processes already.

    Args:
        network: Whether the network is shared with others; otherwise it is hidden too.
        root: Whether the caller is root outside, and so owns the device nodes.
    """
    metadata = _UNGUARDED_METADATA if root else ()
    if network:
        return (*_ALWAYS, *metadata, *_internet())
    # Some families, e.g. vsock, ignore namespaces.
    return (*_ALWAYS, *metadata, only("socket", 0, _UNIX, _INET, _INET6, _NETLINK))


def rules_beside_landlock(*, network: bool, abi: int, pid: int) -> tuple[Rule, ...]:
    """Return the rules for a process that only Landlock separates from the others.

    Args:
        network: Whether the process may reach the Internet.
        abi: The version of Landlock.
        pid: The process that the rules are for.
    """
    rules = (*_ALWAYS, *_UNGUARDED_METADATA, *_SHARED_WITH_OTHERS, *_internet())
    if not network:
        rules = (*rules, *refuse("connect"), only("socket", 0))
    if abi < 3:
        rules = (*rules, *_TRUNCATING)
    return rules if abi >= 6 else (*rules, *_signalling(pid))


def _internet() -> tuple[Rule, ...]:
    """Allow only Internet sockets, and pairs that cannot be connected to anything else."""
    return (
        only("socket", 0, _INET, _INET6, _NETLINK),
        only("socketpair", 0, _UNIX),
        only("socketpair", 1, _STREAM, _SEQPACKET, mask=_SOCKET_TYPE),
    )


_TRUNCATING = (
    *refuse("truncate"),
    *refuse("openat2", errno.ENOSYS),
    *(
        never(call, argument, os.O_TRUNC | os.O_RDONLY, mask=os.O_TRUNC | os.O_ACCMODE)
        for call, argument in (("open", 1), ("openat", 2))
    ),
)


def _signalling(pid: int) -> tuple[Rule, ...]:
    to_itself = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
    return (
        *(only(call, 0, pid) for call in to_itself),
        *refuse("tkill pidfd_send_signal"),
        never("fcntl", 1, *_SIGNAL_OWNER),
        never("ioctl", 1, 0x8901, 0x8902),  # FIOSETOWN and SIOCSPGRP do the same
    )


_CALLS: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "chmod": (90, None), "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435), "connect": (42, 203),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "fchown": (93, 55), "fchownat": (260, 54),
    "fcntl": (72, 25), "file_setattr": (469, 469), "finit_module": (313, 273), "fork": (57, None),
    "fremovexattr": (199, 16), "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "futimesat": (261, None), "init_module": (175, 105),
    "inotify_add_watch": (254, 27), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None),
    "ioprio_set": (251, 30), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "kill": (62, 129), "lchown": (94, None), "lremovexattr": (198, 15),
    "lsetxattr": (189, 6), "memfd_secret": (447, 447), "migrate_pages": (256, 238),
    "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "msgctl": (71, 187), "msgget": (68, 186), "msgrcv": (70, 188),
    "msgsnd": (69, 189), "open": (2, None), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "openat": (257, 56),
    "openat2": (437, 437), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prlimit64": (302, 261),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "removexattr": (197, 14), "removexattrat": (466, 466), "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "seccomp": (317, 277), "semctl": (66, 191), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "setpriority": (141, 140), "settimeofday": (164, 170),
    "setxattr": (188, 5), "setxattrat": (463, 463), "shmat": (30, 196), "shmctl": (31, 195),
    "shmget": (29, 194), "socket": (41, 198), "socketpair": (53, 199), "swapoff": (168, 225),
    "swapon": (167, 224), "syslog": (103, 116), "tgkill": (234, 131), "tkill": (200, 130),
    "truncate": (76, 45), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
    "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None), "vfork": (58, None),
    "vhangup": (153, 58),
}  # fmt: skip
"""The numbers on x86_64 and aarch64, from the kernel's asm/unistd_64.h and asm-generic/unistd.h."""
