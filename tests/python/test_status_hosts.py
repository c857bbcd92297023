"""python -m switchml status of ranks on several hosts: network namespaces with a folder of pages each."""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness
import lab
import pytest
import torch
import torch.distributed as dist
from switchml import _live, _live_hosts

PATIENCE = 60.0  # seconds for anything that must come
RANKS = 4  # two on each host
KEY = bytes(range(32))

pytestmark = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Their names, which are those of namespaces."""
    with lab.Lab(tmp_path_factory.mktemp("hosts")) as network:
        here, there = network.namespace("seen"), network.namespace("told")
        network.link(here, "data", there, "data")
        network.address(here, "data", "10.79.0.1/24")
        network.address(there, "data", "10.79.0.2/24")
        yield here, there


@pytest.fixture
def folders():
    made = [tempfile.mkdtemp(prefix="switchml-test-", dir="/dev/shm") for _ in range(2)]
    yield made
    for folder in made:
        shutil.rmtree(folder)


@pytest.fixture(params=("auto", "udp", "tcp"))
def job(hosts, folders, request):
    with harness.fresh_pool(RANKS, join_group=False, with_gloo=False) as own:
        own.run(join, hosts, folders, request.param)
        yield own


def join(hosts, folders, transport):
    pool, rank = harness._rank_state["place"]
    host = 2 * rank // RANKS
    with open(f"/run/netns/{hosts[host]}") as namespace:
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
    os.environ |= {"SWITCHML_INTERFACE": "data", "SWITCHML_LIVE_VIEW": folders[host], "SWITCHML_TRANSPORT": transport}
    dist.init_process_group(
        "switchml", init_method=f"file://{pool.folder}/store", rank=rank, world_size=RANKS,
        timeout=harness.seconds(600),
    )  # fmt: skip
    all_reduce()


def all_reduce():
    tensor = torch.ones(1024)
    dist.all_reduce(tensor)
    return tensor[0].item()


def group_seen(hosts, folders, host=0):
    command = ["ip", "netns", "exec", hosts[host], sys.executable, "-m", "switchml", "status", "--json"]
    done = subprocess.run([*command, "--folder", folders[host]], capture_output=True, text=True, timeout=PATIENCE)
    assert not done.stderr, done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    return group


def await_group(hosts, folders, condition, host=0):
    end = time.monotonic() + PATIENCE
    while True:
        group = group_seen(hosts, folders, host)
        if condition(group):
            return group
        assert time.monotonic() < end, json.dumps(group, indent=1)


def states(group):
    return [row["state"] for row in group["ranks"]]


def waits(*numbers):
    return lambda group: [row["rank"] for row in group["ranks"] if row["call"]] == list(numbers)


@pytest.mark.parametrize("host", (0, 1))
def test_all_ranks_are_seen_from_each_host(job, hosts, folders, host):
    group = await_group(hosts, folders, lambda group: states(group) == ["running"] * RANKS, host)
    assert [row["pid"] for row in group["ranks"]] == [job.pid(rank) for rank in range(RANKS)]
    assert group["transport"] in ("udp", "shm+udp", "shm+tcp") and group["verdict"] == f"all {RANKS} ranks run"


@pytest.mark.parametrize("victim", (0, 2, 3))
def test_a_stopped_rank_is_named_from_the_other_host(job, hosts, folders, victim):
    others = [rank for rank in range(RANKS) if rank != victim]
    job.kill(victim, signal.SIGSTOP)
    job.start(all_reduce)
    group = await_group(hosts, folders, waits(*others), host=0 if victim >= 2 else 1)
    assert group["ranks"][victim]["state"] == "stopped" and group["ranks"][victim]["pid"] == job.pid(victim)
    assert f"rank {victim} (" in group["verdict"] and "is stopped; 3 ranks wait" in group["verdict"]
    job.kill(victim, signal.SIGCONT)
    assert job.finish() == [RANKS] * RANKS


def test_a_host_all_of_whose_ranks_are_stopped(job, hosts, folders):
    for rank in (2, 3):
        job.kill(rank, signal.SIGSTOP)
    job.start(all_reduce)
    group = await_group(hosts, folders, waits(0, 1))
    assert states(group) == ["running", "running", "stopped", "stopped"]
    assert "rank 2 is stopped, rank 3 is stopped; 2 ranks wait" in group["verdict"]
    for rank in (2, 3):
        job.kill(rank, signal.SIGCONT)
    assert job.finish() == [RANKS] * RANKS


def test_a_host_that_is_dead(job, hosts, folders):
    for rank in (2, 3):
        job.kill(rank)
    group = await_group(hosts, folders, lambda group: states(group)[2:] == ["dead", "dead"])
    assert "rank 2 is dead" in group["verdict"]


def test_a_host_that_is_out_of_reach(job, hosts, folders):
    lab.run("ip", "-n", hosts[1], "link", "set", "data", "down")
    try:
        group = group_seen(hosts, folders)
    finally:
        lab.run("ip", "-n", hosts[1], "link", "set", "data", "up")
    assert states(group) == ["running", "running", "unreachable", "unreachable"]
    assert job.run(all_reduce) == [RANKS] * RANKS


def doors(folder):
    """(address, port, key), by rank."""
    (process, *_) = _live.processes(folder)
    return {rank: rest for rank, *rest in process.doors[process.groups[0]["number"]]}


def test_a_door_takes_no_stranger_and_no_harm(job, hosts, folders):
    address, port, key = doors(folders[0])[2]
    with lab.inside(hosts[0]):
        connections = [socket.create_connection((address, port), PATIENCE) for _ in range(50)]
        for i, connection in enumerate(connections):
            try:
                connection.sendall(bytes([i]) * 100_000)
            except OSError:  # It has hung up, as it should.
                continue
        stranger = _live_hosts.Host([(2, address, port, bytes([key[0] ^ 1]) + key[1:])])
        _live_hosts.ask([stranger], 1.0)
        friend = _live_hosts.Host([(2, address, port, key)])
        _live_hosts.ask([friend], PATIENCE)
    assert stranger.processes is None
    assert {process.pid for process in friend.processes} == {job.pid(2), job.pid(3)}
    assert job.run(all_reduce) == [RANKS] * RANKS
    for connection in connections:
        connection.close()


def answer_wrongly(listener, data):
    with listener.accept()[0] as connection:
        connection.sendall(data)
        connection.recv(16)
        connection.sendall(data)


@pytest.mark.parametrize("data", (b"", b"SWLDOOR2", b"SWLDOOR2" + bytes(8), b"\xff" * 100_000))
def test_what_is_no_door_is_not_believed(data):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            try:
                answer_wrongly(listener, data)
            finally:
                os._exit(0)
        host = _live_hosts.Host([(0, "127.0.0.1", listener.getsockname()[1], KEY)])
        _live_hosts.ask([host], 1.0)
        assert host.processes is None
        os.waitpid(child, 0)


def test_doors_are_addresses_and_ports():
    """Whatever a page of another user says: a name would be looked up, and a wrong number raise."""
    wrong = (
        *("1 127.0.0.1:99999 00", "1 127.0.0.1:0 00", "1 no.such.host.invalid:80 00", "1 a..b:80 00"),
        *("1 127.0.0.1\0:80 00", "1 127.0.0.1:80 -1", "1 127.0.0.1:80 0 0", "1 127.0.0.1 00", "x"),
    )
    right = f"2 [fe80::1%lo]:80 {KEY.hex()}"
    assert _live._doors("\n".join((*wrong, right)).encode()) == [(2, "fe80::1%lo", 80, KEY)]
    assert len(_live._doors(f"{right}\n".encode() * 5000)) == 1024
    host = _live_hosts.Host([(0, "256.0.0.1", 80, KEY), (1, "::1%nowhere", 80, KEY)])
    _live_hosts.ask([host], 0.2)
    assert host.outcome(0) == "unreachable"
