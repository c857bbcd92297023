"""DeepSpeed inference over this backend, with the real package and a tiny model of random weights: `make
test-clients`."""

import importlib.util

import clients
import pytest

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("deepspeed"), reason="DeepSpeed is not installed: make test-clients"
)


def test_two_ranks_of_one_host_generate_what_they_do_over_deepspeeds_own_memory():
    results = clients.run("deepspeed", 1)
    assert set(results) == {"switchml", "gloo", "deepspeed"}
    clients.check(results, "calls_memory")


@clients.NEEDS_HOSTS
def test_two_hosts():
    clients.check(clients.run("deepspeed", 2), "calls_switch")
