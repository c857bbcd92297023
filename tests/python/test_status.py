"""python -m switchml status: what it says of ranks that are stopped, dead, late or well, and who may ask."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import harness
import pytest
import torch
import torch.distributed as dist
from switchml import _live

PATIENCE = 60.0  # seconds for anything that must come


@pytest.fixture
def folder():
    """Where pages of this test lie alone; of memory, as usual, and open to all users."""
    made = tempfile.mkdtemp(prefix="switchml-test-", dir="/dev/shm")
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=("shm", "udp"))
def transport(request):
    return request.param


@contextlib.contextmanager
def ranks(folder, size=3, join_group=True, **environment):
    made = {"SWITCHML_LIVE_VIEW": folder, **environment}
    with harness.fresh_pool(size, environment=made, with_gloo=False, group_timeout=600.0, join_group=join_group) as own:
        yield own


def asked(folder, *arguments):
    """(exit status, what it prints)"""
    command = [sys.executable, "-m", "switchml", "status", "--folder", folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def groups(folder):
    return json.loads(asked(folder, "--json")[1])["groups"]


def await_group(folder, condition):
    """The only group, once it is so."""
    end = time.monotonic() + PATIENCE
    while True:
        (group,) = groups(folder)
        if condition(group):
            return group
        assert time.monotonic() < end, json.dumps(group, indent=1)


def waiting(*numbers):
    """Whether these ranks, and no others, are in a call that others have not made."""
    return lambda group: [row["rank"] for row in group["ranks"] if row["call"]] == list(numbers)


def all_reduce(count=1024):
    tensor = torch.ones(count)
    dist.all_reduce(tensor)
    return tensor[0].item()


def broadcast_many(count):
    for _ in range(count):
        dist.broadcast(torch.ones(16), 0)


def page_of_this_process(folder):
    return [process for process in _live.processes(folder) if process.pid == os.getpid()]


def test_a_group_that_is_well(folder, transport):
    with ranks(folder, SWITCHML_TRANSPORT=transport) as own:
        own.run(all_reduce)
        (group,) = groups(folder)
        assert group["size"] == 3 and group["transport"].endswith(transport) and group["calls"] == 1
        assert group["verdict"] == "all 3 ranks run"
        for rank, row in enumerate(group["ranks"]):
            assert row["pid"] == own.pid(rank) and row["state"] == "running" and row["called"] == 1
            assert row["call"] is None and row["late_s"] == 0 and row["failure"] == ""
        status, text = asked(folder)
        assert status == 0 and "all 3 ranks run" in text and str(own.pid(2)) in text
        own.close()
    assert groups(folder) == [] and os.listdir(folder) == []


@pytest.mark.parametrize("victim", (0, 2))
def test_a_stopped_rank_is_named_and_the_group_goes_on(folder, transport, victim):
    others = [rank for rank in range(3) if rank != victim]
    with ranks(folder, SWITCHML_TRANSPORT=transport) as own:
        own.run(all_reduce)
        own.kill(victim, signal.SIGSTOP)
        own.start(all_reduce)
        group = await_group(folder, waiting(*others))
        assert group["ranks"][victim]["state"] == "stopped" and group["ranks"][victim]["called"] == 1
        assert f"rank {victim} (" in group["verdict"] and "is stopped; 2 ranks wait" in group["verdict"]
        assert group["verdict"].endswith("all_reduce 2 (4 KiB)")
        own.kill(victim, signal.SIGCONT)
        assert own.finish() == [3.0] * 3


def test_a_rank_in_a_debugger(folder):
    attach, detach = 16, 17
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with ranks(folder) as own:
        if ptrace(attach, own.pid(1), None, None) != 0:
            pytest.skip(f"no debugger is allowed here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(own.pid(1), os.WUNTRACED)
        own.start(all_reduce)
        group = await_group(folder, waiting(0, 2))
        assert group["ranks"][1]["state"] == "in a debugger" and "is in a debugger" in group["verdict"]
        assert ptrace(detach, own.pid(1), None, None) == 0
        assert own.finish() == [3.0] * 3


def test_the_engine_says_what_it_waits_for(folder, transport):
    with ranks(folder, SWITCHML_TRANSPORT=transport) as own:
        own.run(all_reduce)
        own.start(all_reduce, ranks=(0, 2))
        group = await_group(folder, lambda group: group["ranks"][2].get("waits_for"))
        row = group["ranks"][2]
        assert row["waits_for"].startswith("no contribution from rank 1 for")
        assert row["slot"] >= 0 and row["chunk"] > 0
        own.start(all_reduce, ranks=(1,))
        assert own.finish() == [3.0] * 3


def test_a_late_rank_and_who_made_others_wait(folder):
    with ranks(folder) as own:
        own.run(broadcast_many, 10)
        own.start(all_reduce, ranks=(0, 2))
        group = await_group(folder, lambda group: (group["ranks"][1]["late_s"] or 0) >= 0.1)
        assert "rank 1 (" in group["verdict"] and "is late by" in group["verdict"]
        assert [row["late_s"] for row in group["ranks"] if row["rank"] != 1] == [0, 0]
        own.run(all_reduce, ranks=(1,))
        own.finish((0, 2))
        (group,) = groups(folder)
        assert group["slowest"].startswith("in the last 11 calls the others waited longest for rank 1: ")
        caused = [row["made_others_wait_s"] for row in group["ranks"]]
        assert caused[1] >= 0.2 and caused[1] > caused[0] and caused[1] > caused[2]


def test_the_last_calls_are_drawn(folder, tmp_path):
    with ranks(folder) as own:
        own.run(broadcast_many, 10)
        own.start(all_reduce, ranks=(0, 2))
        await_group(folder, waiting(0, 2))
        picture = tmp_path / "calls.svg"
        status, text = asked(folder, "--bars", "--last", "5", "--picture", str(picture))
        lines = [line for line in text.splitlines() if set(line[6:]) <= set(".-#") and line[6:]]
        assert status == 0 and [line.split()[0] for line in lines] == ["0", "1", "2"]
        assert lines[0].endswith("-") and lines[1].endswith(".") and lines[2].endswith("-")
        assert "<svg" in picture.read_text()
        own.run(all_reduce, ranks=(1,))
        own.finish((0, 2))


def test_a_dead_rank(folder):
    with ranks(folder) as own:
        own.run(all_reduce)
        own.kill(1)
        group = await_group(folder, lambda group: group["ranks"][1]["state"] == "dead" and group["ranks"][0]["failure"])
        assert "rank 1 (" in group["verdict"] and "is dead" in group["verdict"]
        assert "rank 1" in group["ranks"][0]["failure"]


def receive():
    dist.recv(torch.ones(4), 1)


def send():
    dist.send(torch.ones(4), 0)


def test_a_message_that_does_not_come(folder):
    with ranks(folder) as own:
        own.start(receive, ranks=(0,))
        group = await_group(folder, waiting(0))
        assert group["ranks"][0]["call"]["kind"] == "receive" and group["ranks"][0]["waits_for"] == "rank 1"
        group = await_group(folder, lambda group: group["ranks"][0]["since_s"] >= 0.1)
        assert group["verdict"].startswith("rank 0 waits for rank 1, for 0.")
        own.run(send, ranks=(1,))
        own.finish((0,))


def join_late():
    pool, rank = harness._rank_state["place"]
    dist.init_process_group(
        "switchml", init_method=f"file://{pool.folder}/store", rank=rank, world_size=pool.size,
        timeout=harness.seconds(600),
    )  # fmt: skip


def test_a_group_that_opens(folder):
    with ranks(folder, join_group=False) as own:
        own.start(join_late, ranks=(0, 2))
        end = time.monotonic() + PATIENCE
        while (
            not (found := groups(folder)) or found[0]["verdict"] != "the group opens: 2 of 3 ranks are here, not rank 1"
        ):
            assert time.monotonic() < end, found
        assert [row["state"] for row in found[0]["ranks"]] == ["opening the group", "not seen", "opening the group"]
        own.run(join_late, ranks=(1,))
        own.finish((0, 2))
        assert groups(folder)[0]["verdict"] == "all 3 ranks run"


def two_groups():
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        dist.all_reduce(torch.ones(1), group=pair)
    dist.barrier()


def test_a_process_with_several_groups(folder):
    with ranks(folder) as own:
        own.run(two_groups)
        first, second = groups(folder)
        assert (first["size"], second["size"]) == (3, 2)
        assert [row["global_rank"] for row in second["ranks"]] == [0, 1] and second["calls"] == 1


def in_a_child():
    """How a forked child ends that sees no page of its own, and how many its parent has then."""
    folder = os.environ["SWITCHML_LIVE_VIEW"]
    child = os.fork()
    if child == 0:
        os._exit(0 if page_of_this_process(folder) == [] else 1)
    return os.waitpid(child, 0)[1], len(page_of_this_process(folder))


def test_a_forked_child_is_not_shown_and_removes_nothing(folder):
    with ranks(folder) as own:
        assert own.run(in_a_child) == [(0, 1)] * 3
        assert len(groups(folder)[0]["ranks"]) == 3


def test_pages_of_dead_processes_are_removed_by_later_ones(folder):
    with ranks(folder) as own:
        dead = {own.pid(rank) for rank in range(3)}
    assert {process.pid for process in _live.processes(folder)} == dead
    assert groups(folder) == []
    assert json.loads(asked(folder, "--json", "--all")[1])["groups"][0]["verdict"].startswith("rank 0 (")
    with ranks(folder) as own:
        assert {process.pid for process in _live.processes(folder)} == {own.pid(rank) for rank in range(3)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_sees_nothing(folder):
    with ranks(folder, size=2):
        assert len(_live.processes(folder)) == 2
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            os._exit(0 if _live.processes(folder) == [] and len(os.listdir(folder)) == 2 else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_where_pages_are_the_environment_says_too(folder):
    command = [sys.executable, "-m", "switchml", "status", "--json"]
    with ranks(folder, size=2) as own:
        for where in (folder, "auto", ""):
            environment = {**os.environ, "SWITCHML_LIVE_VIEW": where}
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
            assert done.stderr == ""
            seen = {row.get("pid") for group in json.loads(done.stdout)["groups"] for row in group["ranks"]}
            assert ({own.pid(0), own.pid(1)} <= seen) == (where == folder)


def test_no_page_where_none_is_wanted(folder):
    with ranks(folder, size=2, SWITCHML_LIVE_VIEW="off") as own:
        assert own.run(all_reduce) == [2.0] * 2
        assert os.listdir(folder) == []


def test_files_that_are_no_pages_do_no_harm(folder):
    def leave(number, data):
        with open(os.path.join(folder, f"{_live.PREFIX}{number}"), "wb") as file:
            file.write(data)

    def head(text_bytes):
        return struct.pack("<8sIIqQ", b"SWLIVE1\0", text_bytes, 1, 1, 1)

    with ranks(folder, size=2) as own:
        (name, *_) = os.listdir(folder)
        with open(os.path.join(folder, name), "rb") as file:
            page = file.read()
        length = struct.unpack_from("<I", page, 8)[0]
        text = json.loads(page[32 : 32 + length])
        changed = bytearray(page)
        struct.pack_into("<i", changed, text["groups"]["at"] + text["groups"]["fields"]["size"][0], (1 << 31) - 1)
        leave(8, changed)
        fields = text["groups"]["fields"]
        rank = fields["rank"]
        fields["rank"] = [rank[0], "4s"]
        described = json.dumps(text).encode()
        leave(9, head(len(described)) + described + page[32 + len(described) :])
        fields["rank"] = rank
        text["rows"]["count"] = 1 << 60
        described = json.dumps(text).encode()
        leave(1, b"")
        leave(2, b"\xff" * 5000)
        leave(3, page[:8] + b"\xff" * 24 + page[32:])
        leave(4, head(len(described)) + described)
        leave(5, head(100000) + b"[" * 100000)
        os.mkfifo(os.path.join(folder, f"{_live.PREFIX}6"))
        os.symlink(name, os.path.join(folder, f"{_live.PREFIX}7"))
        assert {process.pid for process in _live.processes(folder)} == {own.pid(0), own.pid(1)}


def test_a_terminal_obeys_nothing_that_a_page_says():
    assert _live.printable("a\x1b[2Jb\n") == "a?[2Jb?"
