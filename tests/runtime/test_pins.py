"""Complete lists of pins, and what is none."""

import pytest

from envhub.errors import ContractError
from envhub.runtime.pins import Pin, Pins, parse_pins

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Pins(())),
        ("# nothing\n\n", Pins(())),
        (f"a==1 --hash={A}", Pins((Pin("a", "1", (A,)),))),
        (f"A_b.C==1.0+cpu --hash={A}", Pins((Pin("a-b-c", "1.0+cpu", (A,)),))),
        (f"a==1 \\\n    --hash={B} \\\n    --hash={A}\n", Pins((Pin("a", "1", (A, B)),))),
        (f"a==1 --hash={A}  # via b\n    # via c\n", Pins((Pin("a", "1", (A,)),))),
        (
            f"a==1 ; python_version < '4' \\\n --hash={A}",
            Pins((Pin("a", "1", (A,), 'python_version < "4"'),)),
        ),
        (
            f"a==1 ; python_version<'3' --hash={A}\na==2; python_version>='3' --hash={B}",
            Pins(
                (
                    Pin("a", "1", (A,), 'python_version < "3"'),
                    Pin("a", "2", (B,), 'python_version >= "3"'),
                )
            ),
        ),
        (f"# envhub: build A.b\na-b==1 --hash={A}", Pins((Pin("a-b", "1", (A,)),), ("a-b",))),
    ],
)
def test_what_is_accepted(text, expected):
    found = parse_pins(text, "runtime.txt", may_build=True)
    assert found == expected
    assert parse_pins(found.text(), "again", may_build=True) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a==1", r"line 1: 'a==1' is not NAME==VERSION --hash=sha256:\.\.\."),
        (f"\n\na>=1 --hash={A}", "line 3: "),
        (f"a @ https://example.org/a.whl --hash={A}", "line 1"),
        (f"a==1 @ https://example.org --hash={A}", "line 1"),
        ("-r other.txt", "line 1"),
        ("-e .", "line 1"),
        ("--index-url https://example.org", "line 1"),
        (f"a==1 --hash={A} --index-url https://example.org", "line 1"),
        (f"a==1 --no-binary a --hash={A}", "line 1"),
        (f"a==1 --hash=md5:{'a' * 32}", "line 1"),
        (f"a[x]==1 --hash={A}", "line 1"),
        (f"a==one --hash={A}", "is not valid: Invalid version"),
        (f"a==1.* --hash={A}", "is not valid: Invalid version"),
        (f"a==1 ; nonsense --hash={A}", "is not valid"),
        (f'a==1 ; python_version > "3\\n-r x" --hash={A}', "in one line"),
        (f"a==1 --hash={A}\nA==2 --hash={B}", "line 2: a is pinned twice"),
        ("# envhub: build a", "says to build a, but does not pin it"),
        (f"a==1 \\\n --hash={A} \\\nb==2 --hash={B}", "line 1"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ContractError, match=message) as caught:
        parse_pins(text, "runtime.txt", may_build=True)
    assert str(caught.value).startswith("runtime.txt")


def test_only_plugins_may_have_something_built():
    text = f"a==1 --hash={A}\n# envhub: build a\n"
    with pytest.raises(ContractError, match=r"line 2: only a plugin's own file"):
        parse_pins(text, "runtime.txt")


def test_those_that_apply_here_in_order():
    text = f"b==1 ; python_version < '3' --hash={A}\nc==1 --hash={A}\na==1 --hash={B}\n"
    pins = parse_pins(text, "x")
    assert [pin.name for pin in pins.here().pins] == ["a", "c"]
    reordered = parse_pins("\n".join(reversed(text.splitlines())), "x")
    assert reordered.here().digest == pins.here().digest != pins.digest
