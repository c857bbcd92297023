"""Where no network can be made, tests of networks are skipped with the reason, whoever runs them."""

import os
import pathlib
import subprocess
import sys

import lab
import pytest

TESTS = pathlib.Path(lab.__file__).parent


def run_without(capabilities, *arguments):
    """Python, as a container runs root that has not been given these; (status, output)."""
    limited = (
        [] if lab.refusal() else ["setpriv", "--bounding-set", capabilities]
    )  # who can make none has nothing to lose
    done = subprocess.run([*limited, sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(TESTS)})  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(lab.refusal() != "", reason=lab.refusal())
def test_what_is_tried_leaves_nothing():
    before = set(os.listdir("/run/netns"))
    assert lab.refusal.__wrapped__() == ""
    assert not [name for name in set(os.listdir("/run/netns")) - before if f"-{os.getpid()}-" in name]


@pytest.mark.parametrize("capabilities", ("-net_admin", "-sys_admin", "-net_admin,-sys_admin"))
def test_the_reason_is_what_the_machine_says(capabilities):
    script = "import lab, os; print(lab.missing(), os.getpid(), sep=chr(10))"
    status, said = run_without(capabilities, "-c", script)
    assert status == 0, said
    reason, process = said.splitlines()
    assert "CAP_NET_ADMIN" in reason and (": ip netns " in reason or ": ip link " in reason), said
    namespaces = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    assert not [name for name in namespaces if f"-{process}-" in name], "it leaves namespaces"


def test_networks_are_skipped_where_none_can_be_made():
    status, said = run_without(
        "-net_admin,-sys_admin",
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        TESTS / "netlab" / "test_cuts.py",
        TESTS / "python" / "test_controller.py",
        "-k",
        "cuts or tree or between or broken_path",
    )
    assert status == 0, said
    assert "skipped" in said and "passed" not in said and "no network namespaces" in said, said
