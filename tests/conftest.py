"""Options of all folders: --all runs the tests marked `slow` too, as `make test ARGS=--all` and `make soak` do."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run tests marked slow as well")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "slow: repeats in another way what faster tests cover, or runs a whole benchmark; run with --all"
    )


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "slow" in item.keywords and not config.getoption("--all"):
            item.add_marker(pytest.mark.skip(reason="slow; run with --all"))
