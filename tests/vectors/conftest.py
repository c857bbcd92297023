"""The vectors and their tools under pytest. Needs no PyTorch.

--vector-target NAME       the data plane to run all vectors on; may be repeated (default: those that need nothing else)
--softswitch-target PATH   the driver of the software switch (default: the one in the build folder)
"""

import pathlib

import pytest

from vectors import targets


def pytest_addoption(parser):
    parser.addoption(
        "--vector-target", action="append", choices=targets.TARGET_NAMES, help="data plane to run vectors on"
    )
    parser.addoption("--softswitch-target", type=pathlib.Path, help="path of softswitch_target")


def pytest_generate_tests(metafunc):
    if "target_name" in metafunc.fixturenames:
        names = metafunc.config.getoption("--vector-target") or targets.ALWAYS
        metafunc.parametrize("target_name", names, scope="session")


@pytest.fixture(scope="session")
def target(target_name, request):
    reason = targets.unavailable(target_name)
    if reason:
        pytest.skip(f"{target_name}: {reason}")
    made = targets.make_target(target_name, request.config.getoption("--softswitch-target"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def softswitches(request):
    """By whether it takes whole chunks only."""
    path = request.config.getoption("--softswitch-target")
    made = {False: targets.make_target("softswitch", path), True: targets.make_target("softswitch-whole", path)}
    yield made
    for target in made.values():
        target.close()


@pytest.fixture(scope="session")
def softswitch(softswitches):
    return softswitches[False]
