"""Over cards that the kernel emulates (Soft-RoCE), in a computer that QEMU does: all that is real but the card."""

import re

import pytest


def test_the_transport_keeps_what_transports_promise(conformance):
    said = conformance()
    passed = re.search(r"PASSED +\] (\d+) tests", said)
    assert passed and int(passed[1]) > 10, said


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize("name, by_hosts", (
    ("four_ranks", True), ("switch_of_two", False), slow("two_hosts", False), slow("switch_of_four", False), slow("training", False)))  # fmt: skip
def test_ranks_get_the_bits_that_udp_gives(ranks, name, by_hosts):
    over = ranks(name)
    before = "shm+" if by_hosts else ""
    for rank, (by_card, by_packets) in enumerate(zip(over["card"]["ranks"], over["packets"]["ranks"], strict=True)):
        assert by_card["session"]["transport"] == f"{before}rdma", f"rank {rank}: {by_card['session']}"
        assert by_packets["session"]["transport"] == f"{before}udp", f"rank {rank}: {by_packets['session']}"
        assert by_card["session"]["precision"] == by_packets["session"]["precision"] == "exact"
        assert by_packets["bytes_written_in_place"] == 0
        assert (by_card["bytes_written_in_place"] > 0) == (not by_hosts), f"rank {rank}: {by_card}"
        assert by_card["results"] == by_packets["results"] == over["card"]["ranks"][0]["results"], f"rank {rank}"
        assert by_card["results"]
    assert over["card"]["sent"] > 100 and over["packets"]["sent"] == 0, over


@pytest.mark.parametrize("name", ("cut", slow("cut_off_switch")))
def test_a_cut_wire_costs_only_time(ranks, name):
    over = ranks(name)
    assert all(rank["session"]["transport"] == "rdma" for rank in over["card"]["ranks"]), over
    assert all(rank["bytes_written_in_place"] > 0 for rank in over["card"]["ranks"]), over
    assert over["card"]["given_up"] > 0, "the cards have given up no pair"
