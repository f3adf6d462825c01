"""How the machine of a run differs from this one."""

from msgspec.structs import replace as changed

from envhub.evaluation.machines import compare_machines


def test_how_machines_differ(run):
    info = run.run_info
    here = changed(
        info,
        machine=changed(info.machine, libc="glibc 9.9", gl=None),
        runtime=changed(info.runtime, packages={"numpy": "0.1"}, python="3.9.9"),
    )
    said = list(compare_machines(info, here))
    assert said[0] == f"libc {info.machine.libc} recorded, glibc 9.9 here"
    assert said[-1].startswith("Python ")
    assert any(text.startswith("numpy ") and text.endswith("0.1 here") for text in said)
    assert list(compare_machines(info, info)) == []
    assert "does not say" in next(iter(compare_machines(changed(info, machine=None), info)))
