"""How to run: `make test`, or `python -m pytest tests/python` with a Python that can import torch and switchml.

    -k text                    only tests whose name holds the text
    --large                    also tests marked `large` (tensors past 2**31 elements, up to 11 GiB of memory)
    --transport=udp|tcp|auto   how ranks of one host reach each other where a test names no switch: through one in
                               rank 0 (udp, the default), or as a user's would, through memory that they share
    --torch-suite=ci|all       the selection of PyTorch's own tests that CI runs (torch_suite_ci.txt), or all of them
    --torch-source=FOLDER      also suites of this checkout of PyTorch, which its package does not have

SWITCHML_TEST_BACKEND=gloo runs the tests over Gloo, to tell a wrong test from a wrong backend; tests of what Gloo does
not do fail then. harness.py says how ranks are run, torch_suite_runner.py how PyTorch's own tests are.
"""

import os
import sys

import pytest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

torch.set_num_threads(1)

import harness  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--large", action="store_true", help="run tests marked large: tensors past 2**31 elements")
    parser.addoption(
        "--transport", choices=("udp", "tcp", "auto"), default="udp", help="of ranks whose test names no switch"
    )
    parser.addoption(
        "--torch-suite", choices=("ci", "all"), default="ci", help="how much of PyTorch's own tests to run"
    )
    parser.addoption("--torch-source", metavar="FOLDER", help="a checkout of PyTorch, of the version that is installed")


def pytest_configure(config):
    os.environ["SWITCHML_TRANSPORT"] = config.getoption("--transport")
    config.addinivalue_line(
        "markers", "through_switch: looks at the switch in rank 0, or names its transport; not with --transport=auto"
    )
    config.addinivalue_line("markers", "large: needs up to 11 GiB of memory; run with --large")
    config.addinivalue_line("markers", "timeout(seconds): used where pytest-timeout is installed")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "through_switch" in item.keywords and config.getoption("--transport") == "auto":
            item.add_marker(
                pytest.mark.skip(
                    reason="looks at the switch in rank 0, or names its transport; run with --transport=udp"
                )
            )
        if "large" in item.keywords and not config.getoption("--large"):
            item.add_marker(pytest.mark.skip(reason="needs up to 11 GiB of memory; run with --large"))


def pytest_report_header():
    return f"torch {torch.__version__}, backend under test: {harness.BACKEND}, transport {os.environ['SWITCHML_TRANSPORT']}"


@pytest.fixture(scope="session", autouse=True)
def pools():
    """Ends the shared pools after the last test: destroying their groups must work, too."""
    yield
    harness.close_pools()


def pytest_generate_tests(metafunc):
    """`world`: how many ranks. With three, "the others" are several; a module whose subject depends on their number has
    WORLDS."""
    if "world" in metafunc.fixturenames:
        worlds = getattr(metafunc.module, "WORLDS", (3,))
        metafunc.parametrize("world", worlds, ids=[f"{size}ranks" for size in worlds], scope="session")


@pytest.fixture(scope="session", params=("auto", "integer"))
def precision(request):
    """SWITCHML_PRECISION: as a switch in software adds, and as a chip does."""
    if request.param == "integer" and (os.environ["SWITCHML_TRANSPORT"] != "udp" or harness.BACKEND == "gloo"):
        pytest.skip("integers go through a switch; run with --transport=udp")
    return request.param


@pytest.fixture
def ranks(world, precision):
    """A shared pool."""
    return harness.pool(world, precision)
