"""Groups that open while ranks are late, or do not open: what is wrong is named on every rank."""

import os
import pathlib
import re
import signal
import socket
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import GROUP_IS_OVER, LONG, TIMEOUT, check_all, doomed_pool, open_on_each, timed, with_switch

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


class DeadlyStore(dist.Store):
    """Ends this process in place of its nth word."""

    def __init__(self, below, word):
        super().__init__()
        self.below, self.left = below, word

    def add(self, key, amount):
        return self.below.add(key, amount)

    def get(self, key):
        return self.below.get(key)

    def check(self, keys):
        return self.below.check(keys)

    def set(self, key, value):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.below.set(key, value)


def rank_open_part(members, victim, word):
    torch_groups = dist.distributed_c10d
    if dist.get_rank() == victim:
        stores = torch_groups._world.pg_map if hasattr(torch_groups, "_world") else torch_groups._pg_map
        world = torch_groups._get_default_group()
        stores[world] = (stores[world][0], DeadlyStore(stores[world][1], word))
    return timed(dist.new_group, members)


@pytest.mark.parametrize("transport, victim, word", (("auto", 1, 2), ("auto", 2, 3), ("udp", 1, 4), ("udp", 2, 2)))
def test_a_rank_that_dies_while_a_new_group_opens_is_named_at_once(transport, victim, word):
    """By what knows that first: another group, in which it may have another number, or the opening itself."""
    members = [1, 2]
    with doomed_pool(RANKS, environment=settings(transport)) as own:
        own.run(rank_sum, None)
        own.start(rank_open_part, members, victim, word)
        living = [rank for rank in range(RANKS) if rank != victim]
        outcomes = own.finish(living)
        died = own.ranks[victim][0]
        died.join(60)
        assert died.exitcode == -signal.SIGKILL, "its store has nothing of what it says"
    number = members.index(victim)
    said = (f"rank {number} is gone, as group default knows: rank {victim} (", f"rank {number} (", "rank 0 is gone: ")
    check_all([outcome for rank, outcome in zip(living, outcomes) if rank in members], said, "its process has ended")


def rank_open_first(rank, place, victim, word):
    """`place`: of the store; a file, or a port of rank 0."""
    if isinstance(place, int):
        store = dist.TCPStore("127.0.0.1", place, RANKS, rank == 0, timeout=harness.seconds(LONG))
    else:
        store = dist.FileStore(place, RANKS)
    store = DeadlyStore(store, word) if rank == victim else store
    options = {"store": store, "rank": rank, "world_size": RANKS, "timeout": harness.seconds(LONG)}
    return timed(dist.init_process_group, harness.BACKEND, **options)


@pytest.mark.parametrize("kind, victim, word", (("file", 1, 2), ("file", 0, 3), ("tcp", 0, 4), ("tcp", 2, 3)))
def test_a_rank_that_dies_while_the_first_group_opens_is_named_at_once(tmp_path, kind, victim, word):
    """By the ranks that wait for it, though no group knows of it; also where the store dies with it."""
    place = str(tmp_path / "store") if kind == "file" else harness.free_port(socket.SOCK_STREAM)
    with doomed_pool(RANKS, join_group=False) as own:
        for rank in range(RANKS):
            own.start(rank_open_first, rank, place, victim, word, ranks=[rank])
        outcomes = own.finish([rank for rank in range(RANKS) if rank != victim])
    check_all(outcomes, (f"rank {victim} (", f"rank {victim} is gone"), "is gone: its process has ended", GROUP_IS_OVER)


# ---- settings ----


def test_a_group_that_is_too_large_is_refused_before_anybody_waits(tmp_path):
    check_all(open_on_each(tmp_path, 1025, [{}]), "rank 0 of 1025", "a group has 1 to 1024 ranks", "make smaller ones")


def test_a_rank_that_never_joins_ends_in_an_error(tmp_path):
    check_all(open_on_each(tmp_path, 3, [{}, {}], TIMEOUT))


def test_a_missing_switch_is_named(tmp_path):
    address = f"127.0.0.1:{harness.free_port()}"
    check_all(
        open_on_each(tmp_path, 2, [{**with_switch(address), "SWITCHML_CONNECT_TIMEOUT": str(TIMEOUT)}] * 2), address
    )


@pytest.mark.parametrize("address", ("here", "127.0.0.1:", "127.0.0.1:70000", ":", "[::1:5"))
def test_a_wrong_address_is_refused(address, tmp_path):
    check_all(open_on_each(tmp_path, 2, [with_switch(address)] * 2), "SWITCHML_SWITCH", address)


BAD_SETTINGS = {
    "SWITCHML_TRANSPORT": ("carrier-pigeon", "auto, shm, udp, tcp or rdma"),
    "SWITCHML_PAYLOAD": ("300", "256"),
    "SWITCHML_SLOTS": ("3", "4096"),
    "SWITCHML_SHARDS": ("17", "16"),
    "SWITCHML_KERNELS": ("mmx", "scalar"),
    "SWITCHML_CONNECT_TIMEOUT": ("soon", "3600"),
    "SWITCHML_FAILURE_TIMEOUT": ("0", "3600"),
    "SWITCHML_SLOW_WARNING": ("0", "86400"),
    "SWITCHML_ON_SWITCH_FAILURE": ("panic", "fallback"),
    "SWITCHML_RTO_MIN": ("-1", "60000"),
    "SWITCHML_RTO_MAX": ("1e9", "60000"),
    "SWITCHML_CONGESTION_CONTROL": ("reno", "cubic"),
    "SWITCHML_LOG_LEVEL": ("loud", "warning"),
    "SWITCHML_FAULTS": ("send_loss=2", "send_loss"),
    "SWITCHML_RDMA_DEVICE": ("mlx5_0:0", "DEVICE:PORT"),
    "SWITCHML_INTERFACE": ("no-such-interface0", "interface"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_bad_setting_is_refused_with_what_is_allowed(name, tmp_path):
    value, allowed = BAD_SETTINGS[name]
    outcomes = open_on_each(tmp_path, 2, [{name: value}] * 2)
    # Only rank 0, which announces an embedded switch, uses the interface; the other is told what rank 0 found.
    check_all(outcomes[:1] if name == "SWITCHML_INTERFACE" else outcomes, name, value, allowed)
    check_all(outcomes)


@pytest.mark.parametrize("victim", (0, 1))
def test_a_setting_that_is_bad_on_one_rank_is_told_to_all(victim, tmp_path):
    settings = [{}, {}, {}]
    settings[victim] = {"SWITCHML_SLOTS": "many"}
    outcomes = open_on_each(tmp_path, 3, settings)
    check_all(outcomes, "SWITCHML_SLOTS", "many")
    for rank, (message, _) in enumerate(outcomes):
        assert (f"rank {victim}: " in message) == (rank != victim), outcomes


def test_settings_that_differ_between_ranks_are_named(tmp_path):
    outcomes = open_on_each(tmp_path, 2, [{"SWITCHML_PAYLOAD": "1024"}, {"SWITCHML_PAYLOAD": "2048"}])
    check_all(outcomes, "payload")


@pytest.mark.parametrize(
    "name, one, other",
    (("SHARDS", "1", "2"), ("SIGNIFICANT_BITS", "auto", "0"), ("ON_SWITCH_FAILURE", "error", "fallback")),
)
def test_other_settings_that_differ_are_named_too(name, one, other, tmp_path):
    name = f"SWITCHML_{name}"
    check_all(open_on_each(tmp_path, 2, [{name: one}, {name: other}]), name, "rank 1", "rank 0")
