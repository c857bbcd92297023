"""Groups that open while ranks are late."""

import pathlib
import re
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import TIMEOUT, check_all, doomed_pool, timed

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="the settings are ours")

SEARCH = 6.0  # seconds that a switch may be looked for
RANKS = 3


def settings(transport):
    return {"SWITCHML_CONNECT_TIMEOUT": str(SEARCH), "SWITCHML_TRANSPORT": transport}


def await_hellos(folder, count):
    """Until so many ranks have left the first word of an opening in the group's store, a file."""
    store, end = pathlib.Path(folder, "store"), time.monotonic() + 60
    while not store.exists() or len(set(re.findall(rb"[!-~]*switchml/hello/\d", store.read_bytes()))) < count:
        assert time.monotonic() < end, "the ranks do not open a group"
        time.sleep(0.01)


def rank_open(rank, size, folder, timeout):
    dist.init_process_group(
        harness.BACKEND,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=size,
        timeout=harness.seconds(timeout),
    )
    return rank_sum(None)


def rank_sum(group):
    total = torch.ones(100)
    dist.all_reduce(total, group=group)
    return float(total[0])


def rank_open_another():
    return rank_sum(dist.new_group(list(range(RANKS))))


@pytest.mark.parametrize("late", (0, 2))
@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_rank_may_come_later_than_a_switch(tmp_path, transport, late):
    """Ranks wait for ranks as long as the group's timeout says, however short the time is that a switch has."""
    with doomed_pool(RANKS, environment=settings(transport), join_group=False) as own:
        for rank in range(RANKS):
            if rank != late:
                own.start(rank_open, rank, RANKS, str(tmp_path), 60, ranks=[rank])
        await_hellos(tmp_path, RANKS - 1)
        time.sleep(1.25 * SEARCH)
        own.start(rank_open, late, RANKS, str(tmp_path), 60, ranks=[late])
        assert own.finish() == [RANKS] * RANKS


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_rank_may_come_to_a_new_group_later_than_a_switch(transport):
    with doomed_pool(RANKS, environment=settings(transport), group_timeout=60) as own:
        own.run(rank_sum, None)
        own.start(rank_open_another, ranks=[0, 1])
        await_hellos(own.folder, RANKS + 2)
        time.sleep(1.25 * SEARCH)
        own.start(rank_open_another, ranks=[2])
        assert own.finish() == [RANKS] * RANKS


def rank_miss_one(rank, folder):
    return timed(rank_open, rank, RANKS, folder, TIMEOUT)


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_rank_that_never_comes_is_named_after_the_groups_timeout(tmp_path, transport):
    environment = {**settings(transport), "SWITCHML_CONNECT_TIMEOUT": "0.5"}
    with doomed_pool(RANKS - 1, environment=environment, join_group=False) as own:
        for rank in range(RANKS - 1):
            own.start(rank_miss_one, rank, str(tmp_path), ranks=[rank])
        outcomes = own.finish()
    check_all(outcomes, "rank 2 of default did not come within")
    assert all(took > 0.8 * TIMEOUT for _, took in outcomes), outcomes
