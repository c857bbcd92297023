"""benchmarks/allreduce: what it compares results and times with, and what it prints."""

import argparse
import copy

from benchmark_tools import main_of

import limits
import pattern
import pytest
import report
import torch

KINDS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
MIB = 1 << 20
NAMED = {"payload": 1408, "precision": "exact", "transport": "udp", "embedded": 0}
WHOLE = 1408 * 1000  # bytes: a packet more for each 1408
PACKET = 14 + 20 + 8 + 24 + 1408


# ---- results ----


@pytest.mark.parametrize("ranks", (2, 8, 64))
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_exact_in_every_order(kind, ranks):
    tables = [pattern.table(rank, pattern.limit(kind, ranks), kind) for rank in range(ranks)]
    for rank, order in ((0, tables), (ranks - 1, reversed(tables))):
        mine, expected = pattern.mine_and_sum(rank, ranks, kind)
        assert mine.dtype == expected.dtype == kind and torch.equal(mine, tables[rank])
        total = torch.zeros(pattern.PERIOD, dtype=kind)
        for each in order:
            total += each
        assert torch.equal(total, expected)


@pytest.mark.parametrize("ranks", (2, 64))
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_result_is_found(kind, ranks):
    mine, total = pattern.mine_and_sum(ranks - 1, ranks, kind)
    result = torch.empty(2 * pattern.PERIOD + 100, dtype=kind)
    pattern.fill(result, total)
    assert pattern.first_difference(result, total) is None
    at = pattern.PERIOD + int(mine.nonzero()[0])
    for lacks in (mine, -mine):  # a rank that is not in it, or twice
        spoilt = result.clone()
        spoilt[pattern.PERIOD : pattern.PERIOD + 1408] -= lacks[:1408]
        assert pattern.first_difference(spoilt, total) == at
    spoilt = result.clone()
    spoilt[1408:2816] = result[:1408]
    assert 1408 <= pattern.first_difference(spoilt, total) < 2816


# ---- limits ----


def seconds(size, session, item=4, hosts=4, ranks=4):
    return limits.seconds("switchml", size, item, ranks, hosts, 100, 1500, session)


def test_a_switch_with_a_link_of_its_own_takes_each_byte_once():
    expected = 1000 * PACKET * 8 / 100e6
    assert (
        seconds(WHOLE, NAMED)
        == seconds(WHOLE, NAMED, hosts=8)
        == seconds(WHOLE, NAMED, item=2)
        == pytest.approx(expected)
    )


@pytest.mark.parametrize("hosts", (2, 4, 8))
def test_hosts_that_embed_a_switch_each_carry_what_a_ring_does(hosts):
    every = {**NAMED, "embedded": hosts}
    assert limits.link_bytes(MIB, hosts, hosts) == limits.bus_bytes(MIB, hosts)
    assert seconds(WHOLE, every, hosts=hosts) == pytest.approx(2 * (hosts - 1) / hosts * seconds(WHOLE, NAMED))
    assert seconds(WHOLE, every, hosts=hosts, ranks=4 * hosts) == seconds(
        WHOLE, every, hosts=hosts
    )  # several ranks are one worker
    one = {**NAMED, "embedded": 1}
    assert seconds(WHOLE, one, hosts=hosts) == pytest.approx((hosts - 1) * seconds(WHOLE, NAMED))


def test_over_tcp_what_a_ring_sends_takes_as_long_as_a_ring():
    every = {**NAMED, "payload": 64512, "transport": "shm+tcp", "embedded": 4}
    assert seconds(WHOLE, every) == limits.seconds("gloo", WHOLE, 4, 4, 4, 100, 1500, {})


def test_integers_take_an_elements_bytes_at_least():
    integers = {**NAMED, "precision": "integer"}
    expected = 1000 * (PACKET - 4) * 8 / 100e6  # their header is shorter
    assert seconds(WHOLE, integers) == seconds(WHOLE, integers, item=2) == pytest.approx(expected)
    assert seconds(WHOLE, integers, item=8) == limits.seconds("gloo", WHOLE, 8, 4, 4, 100, 1500, {})  # by which it goes


# ---- tables ----


def row(kind, **limit):
    return {
        "bytes": MIB,
        "type": kind,
        "payload": 1408,
        "loss": 0.0,
        "calls": 5,
        "seconds": {"switchml": [0.1] * 5, "gloo": [0.2] * 5},
        **limit,
        "cpu_seconds": {"switchml": 1.0, "gloo": 1.0},
        "machine": dict.fromkeys(("switchml", "gloo"), {"busy": 0.5, "nice": 0.0}),
        "again": {"switchml": 0, "gloo": 0},
        "memory": {"switchml_bytes": 1, "process_growth_bytes": 1},
    }


def printed(capsys, rows, **what):
    run = {"ranks": 2, "per_host": 1, "rate": 0, "mtu": 0, "no_switch": False, "torch": "2", "rows": rows, **what}
    report.print_run(run, ["switchml", "gloo"])
    return capsys.readouterr().out


def test_every_row_says_its_type_and_every_run_where(capsys):
    here = printed(capsys, [row("float32"), row("bfloat16")])
    assert (
        "SUM, 2 ranks, torch" in here
        and here.count("bfloat16") == here.count("float32") == 1
        and "of limit" not in here
    )
    limited = printed(capsys, [row("float64", limit_seconds={"switchml": 0.05, "gloo": 0.05})], rate=100, mtu=1500)
    assert "links of 100 Mbit/s, MTU 1500, torch" in limited and limited.count("float64") == 2 and "0.500" in limited
    unlimited = printed(capsys, [row("float16")], mtu=1500, no_switch=True)
    assert "links without a limit, MTU 1500, no switch named, torch" in unlimited and unlimited.count("float16") == 2


def test_times_of_different_types_and_networks_are_different_times():
    run = {"ranks": 2, "rows": []}
    runs = [
        {**run, "rate": 100, "mtu": 1500},
        {**run, "rate": 100, "mtu": 1500, "no_switch": True},
        {**run, "rate": 0, "mtu": 1500},
        {**run, "rate": 0, "mtu": 0},
    ]
    keys = [report.key(run, row(kind), "gloo") for run in runs for kind in ("float32", "bfloat16")]
    assert len(set(keys)) == len(sorted(keys)) == 8
    assert all(len(report.key_cells(key)) == len(report.KEY_HEADINGS) for key in keys)
    old = copy.deepcopy(row("float32"))
    del old["type"]
    assert report.key({"ranks": 2, "rate": None}, old, "gloo") == report.key(runs[-1], row("float32"), "gloo")


# ---- what ranks are told ----


def test_only_without_a_switch_ranks_are_told_of_none():
    tool = main_of("allreduce")
    for transport, no_switch in (("", False), ("udp", True)):
        told = tool.settings(argparse.Namespace(transport=transport, no_switch=no_switch))
        assert told.get("SWITCHML_SWITCH") == ("" if no_switch else None)
        assert told.get("SWITCHML_TRANSPORT", "") == transport
