"""The filters as programs: what they say to each call, on both machines."""

import errno
import os
import re
import struct
from types import SimpleNamespace

import pytest
from support.needs import HEADERS, needs_headers

from envhub.sandbox import seccomp


class Machine:
    """Runs a filter as the kernel would: classic BPF, only what filters use."""

    def __init__(self, rules, machine: str) -> None:
        self.code = list(struct.iter_unpack("=HBBI", seccomp.assemble(rules, machine)))
        self.column, self.architecture = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}[
            machine
        ]

    def judge(self, call: str | int, *arguments: int, architecture: int | None = None) -> str:
        number = call if isinstance(call, int) else seccomp._CALLS[call][self.column]
        padded = (*arguments, *[0] * (6 - len(arguments)))
        words = (number, architecture or self.architecture, 0, *padded)
        data = struct.pack("=IIQ6Q", *words)
        position, register = 0, 0
        while True:
            operation, yes, no, value = self.code[position]
            position += 1
            match operation:
                case 0x20:
                    (register,) = struct.unpack_from("=I", data, value)
                case 0x54:
                    register &= value
                case 0x15:
                    position += yes if register == value else no
                case 0x35:
                    position += yes if register >= value else no
                case 0x06:
                    return self.name(value)

    def name(self, value: int) -> str:
        names = {0x7FFF0000: "allow", 0x7FC00000: "ask", 0x80000000: "kill"}
        return names.get(value) or errno.errorcode.get(value & 0xFFFF, "nothing")


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request) -> str:
    return request.param


class TestFilter:
    @pytest.mark.parametrize(
        ("arguments", "verdict"),
        [
            (("ptrace", 16), "EPERM"),
            (("clone3",), "ENOSYS"),
            (("clone", 0x11), "ask"),
            (("clone", 0x3D0F00), "ask"),
            (("clone", 0x11 | 0x10000000), "EPERM"),
            (("socket", 1), "EPERM"),
            (("socket", 2), "EPERM"),
            (("socket", 40), "EPERM"),
            (("socketpair", 1, 1), "allow"),
            (("socketpair", 1, 1 | 0o2004000), "allow"),
            (("socketpair", 1, 5), "allow"),
            (("socketpair", 1, 2), "EPERM"),
            (("socketpair", 2, 1), "EPERM"),
            (("connect", 3), "EPERM"),
            (("fchmod", 3), "nothing"),
            (("fsetxattr", 3), "ENOTSUP"),
            (("prlimit64", 0), "allow"),
            (("prlimit64", 7), "EPERM"),
            (("setpriority", 0, 0), "allow"),
            (("setpriority", 2, 0), "EPERM"),
            (("setpriority", 0, 7), "EPERM"),
            (("ioctl", 1, 0x5401), "allow"),
            (("ioctl", 1, 0x5412), "EPERM"),
            (("ioctl", 1, 0x40086602), "EPERM"),
            (("ioctl", 1, 0xC0106407), "allow"),
            (("fcntl", 3, 1030, 10), "allow"),  # F_DUPFD_CLOEXEC
            (("fcntl", 3, 1033, 7), "allow"),  # F_ADD_SEALS
            (("fcntl", 3, 1024, 0), "EINVAL"),
            (("fcntl", 3, 1026, 0x3F), "EINVAL"),
            (("fcntl", 3, 1040), "EINVAL"),
            (("inotify_add_watch", 3), "EPERM"),
            (("kill", 7), "allow"),
            (("truncate",), "allow"),
            ((470,), "ENOSYS"),
            ((0x40000027,), "ENOSYS"),
            ((0xFFFFFFFF,), "ENOSYS"),
        ],
    )
    def test_beside_landlock(self, machine, arguments, verdict):
        rules = seccomp.rules_beside_landlock(network=False, abi=6, pid=42)
        assert Machine(rules, machine).judge(*arguments) == verdict

    @pytest.mark.parametrize(
        ("arguments", "verdict"),
        [
            (("kill", 42, 9), "allow"),
            (("kill", 7, 9), "EPERM"),
            (("kill", 0xFFFFFFFF, 9), "EPERM"),
            (("tgkill", 42, 43, 6), "allow"),
            (("tkill", 42, 6), "EPERM"),
            (("fcntl", 3, 8, 7), "EPERM"),
            (("fcntl", 3, 4, 0), "allow"),
            (("truncate",), "EPERM"),
            (("openat2",), "ENOSYS"),
            (("openat", 3, 0, 0o1000), "EPERM"),
            (("openat", 3, 0, 0o1001), "allow"),
            (("openat", 3, 0, 0), "allow"),
        ],
    )
    def test_beside_an_old_landlock(self, machine, arguments, verdict):
        rules = seccomp.rules_beside_landlock(network=False, abi=1, pid=42)
        assert Machine(rules, machine).judge(*arguments) == verdict

    @pytest.mark.parametrize("network", [False, True])
    @pytest.mark.parametrize("root", [False, True])
    def test_in_namespaces(self, machine, network, root):
        rules = seccomp.rules_in_namespaces(network=network, root=root)
        judge = Machine(rules, machine).judge
        assert judge("socket", 1) == ("EPERM" if network else "allow")
        assert judge("socketpair", 1, 2) == ("EPERM" if network else "allow")
        assert [judge("socket", family) for family in (2, 10, 16)] == ["allow"] * 3
        assert judge("socket", 40) == "EPERM"
        assert judge("fchmod", 3) == ("nothing" if root else "allow")
        assert judge("unshare", 0x10000000) == "EPERM"
        assert judge("connect", 3) == judge("shmget", 1) == judge("fcntl", 3, 6) == "allow"
        assert judge("fcntl", 3, 1024) == judge("fcntl", 3, 1026) == "EINVAL"
        assert judge("inotify_add_watch", 3) == "EPERM"

    def test_machines_that_it_is_not_written_for(self, monkeypatch):
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))
        assert (
            seccomp.why_unavailable()
            == "its seccomp filter supports x86_64 and aarch64, not riscv64"
        )

    def test_the_other_architectures_of_a_machine(self, machine):
        judge = Machine(seccomp.rules_in_namespaces(network=False, root=False), machine).judge
        assert judge("ptrace", architecture=0x40000003) == "kill"  # i386

    @needs_headers
    def test_the_numbers_are_those_of_the_kernels_headers(self):
        for column, header in enumerate(HEADERS):
            if not header.exists():
                continue
            defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
            numbers = {name: int(number) for name, number in defined}
            youngest = max(numbers.values())
            for call, entry in seccomp._CALLS.items():
                number = entry[column]
                if number is None or number <= youngest:
                    assert numbers.get(call) == number, call
