"""How to run: `make test`, or `python -m pytest tests/rdma`; guest.py says what it takes."""

import json
import pathlib
import shlex
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import guest as emulated  # noqa: E402
import lab  # noqa: E402

UNIT_TRANSPORT = lab.build_folder() / "tests/unit/unit_transport"


def command(*words, **environment):
    return shlex.join(["env", *(f"{name}={value}" for name, value in environment.items()), *map(str, words)])


def ranks_command(arrangements):
    program = sys.executable, "-B", HERE / "rdma_ranks.py", lab.program("switchml-switchd"), "/run/jobs"
    return command(*program, *arrangements, PYTHONPATH=lab.build_folder() / "python")


def conformance_command():
    # A test that holds wakes to a time is for computers that keep it, and needs no card.
    chosen = "--gtest_filter=*/rdma_card-*NoWakeIsLost*"
    program = UNIT_TRANSPORT, chosen, "--gtest_color=no"
    return command(*program, SWITCHML_TEST_RDMA=" ".join(emulated.ADDRESSES))


@pytest.fixture(scope="session")
def guest(request, tmp_path_factory):
    """With all that the tests at hand ask of it under way: one waits while another computes."""
    built = {"switchml-switchd": lab.program("switchml-switchd"), "unit_transport": UNIT_TRANSPORT.exists()}
    unbuilt = [name for name, there in built.items() if not there]
    why = emulated.missing() or (f"not built: {', '.join(unbuilt)}" if unbuilt else "")
    if why:
        pytest.skip(f"no emulated cards: {why}")
    one = request.session.guest = emulated.Guest(tmp_path_factory.mktemp("guest"))
    try:
        one.await_file("connected")
        here = [item for item in request.session.items if item.path.parent == pathlib.Path(__file__).parent]
        chosen = [item for item in here if not any(item.iter_markers("skip"))]
        arrangements = [item.callspec.params["name"] for item in chosen if "ranks" in item.fixturenames]
        if arrangements:
            one.start("ranks", ranks_command(arrangements))
        if any("conformance" in item.fixturenames for item in chosen):
            one.start("conformance", conformance_command())
        yield one
    finally:
        one.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed and hasattr(item.session, "guest"):
        report.sections.append(("what the guest has said", item.session.guest.said()))


@pytest.fixture(scope="session")
def conformance(guest):
    return lambda: guest.finish("conformance")


@pytest.fixture(scope="session")
def ranks(guest):
    """What ranks got in the arrangement of that name (rdma_ranks.py), by transport."""
    return lambda name: json.loads(guest.await_file(f"{name}.json", of="ranks"))
