"""PyTorch's flight recorder shows the calls of this backend, and PyTorch's analyser understands them."""

import importlib
import json
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

import harness

c10d = torch._C._distributed_c10d
pytestmark = pytest.mark.skipif(
    not hasattr(c10d, "_dump_fr_trace"), reason="this PyTorch has no flight recorder for the CPU"
)


def dumped(**wanted):
    return pickle.loads(c10d._dump_fr_trace(**wanted))


def calls(dump):
    return [entry for entry in dump["entries"] if entry.get("backend_call", "").startswith("switchml:")]


def rank_calls():
    """The entries of some calls, those of earlier tests left out."""
    before = max(
        (entry["time_created_ns"] for entry in calls(dumped())), default=0
    )  # the log forgets: positions say nothing
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(torch.ones(3, 5))
    outputs = [torch.empty(2, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(outputs, torch.ones(2, dtype=torch.int64))
    dist.barrier()
    if rank == 0:
        dist.send(torch.ones(7), 1)
    elif rank == 1:
        dist.recv(torch.empty(7), 0)
    dist.monitored_barrier()
    return [entry for entry in calls(dumped()) if entry["time_created_ns"] > before], dumped()["pg_config"]


def test_calls_are_there_with_their_sizes():
    for rank, (entries, config) in enumerate(harness.pool(3).run(rank_calls)):
        names = [entry["backend_call"].removeprefix("switchml:") for entry in entries]
        message = [["send 0->1"], ["recv 1<-0"], []][rank]
        assert names == ["all_reduce", "all_gather", "barrier", *message, "monitored_barrier"]
        all_reduce, all_gather = entries[:2]
        assert all_reduce["input_sizes"] == all_reduce["output_sizes"] == [[3, 5]]
        assert all_reduce["input_dtypes"] == all_reduce["output_dtypes"] == ["Float"]
        assert all_gather["input_sizes"] == [[2]]
        assert all_gather["output_sizes"] == [[3, 2]]
        assert all_gather["output_dtypes"] == ["Long"]
        assert all_reduce["profiling_name"] == "gloo:all_reduce"
        assert 0 < all_reduce["timeout_ms"] <= harness.GROUP_TIMEOUT * 1000
        for entry in entries:
            assert entry["state"] == "completed", entry
            assert entry["retired"]
            spent = entry["time_discovered_completed_ns"] - entry["time_discovered_started_ns"]
            assert entry["duration_ms"] == pytest.approx(spent / 1e6)
            assert (
                entry["time_created_ns"] <= entry["time_discovered_started_ns"] <= entry["time_discovered_completed_ns"]
            )
            assert entry["is_p2p"] == (entry["backend_call"][:13] in ("switchml:send", "switchml:recv"))
            group = "0: 0->1" if entry["is_p2p"] else "0"
            assert tuple(entry["process_group"]) == (group, "default_pg")
        numbers = [entry["collective_seq_id"] for entry in entries if not entry["is_p2p"]]
        assert numbers == list(range(numbers[0], numbers[0] + 4))
        assert config["0"] == {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}


def rank_looks_at_a_call_under_way():
    store = dist.distributed_c10d._get_default_store()
    mine = torch.ones(11)
    if dist.get_rank() == 1:
        store.get("seen")
        dist.all_reduce(mine)
        return None
    work = dist.all_reduce(mine, async_op=True)
    during = calls(dumped(onlyActive=True))
    store.set("seen", "1")
    work.wait()
    return during, calls(dumped(onlyActive=True)), calls(dumped())


def test_a_call_that_waits_for_another_rank_is_under_way():
    with harness.fresh_pool(2) as own:
        during, active, after = own.run(rank_looks_at_a_call_under_way)[0]
    assert [(entry["state"], entry["retired"], entry["input_sizes"]) for entry in during] == [
        ("started", False, [[11]])
    ]
    assert active == []
    assert [(entry["state"], entry["retired"]) for entry in after] == [("completed", True)]


def rank_disagrees():
    error = harness.caught(dist.all_reduce, torch.ones(5 + dist.get_rank()))
    return error, calls(dumped())


def test_a_call_that_failed_is_over_and_not_completed():
    with harness.fresh_pool(2, with_gloo=False) as own:
        for error, entries in own.run(rank_disagrees):
            assert error
            assert [(entry["state"], entry["retired"]) for entry in entries] == [("started", True)]
            assert "duration_ms" not in entries[0]


def rank_dumps_json():
    dist.all_reduce(torch.ones(2))
    dump = json.loads(c10d._dump_fr_trace_json(True, False))
    without = json.loads(c10d._dump_fr_trace_json(includeCollectives=False))
    return dump, without, dumped(includeCollectives=False)


def test_the_other_forms_of_a_dump_have_them_too():
    for dump, without, pickled in harness.pool(2).run(rank_dumps_json):
        last = calls(dump)[-1]
        assert (last["backend_call"], last["state"], last["input_sizes"]) == ("switchml:all_reduce", "completed", [[2]])
        assert dump["pg_status"][str(last["pg_id"])]["last_completed_collective"] == str(last["collective_seq_id"])
        ids = [entry["record_id"] for entry in dump["entries"]]
        assert ids == list(range(ids[0], ids[0] + len(ids)))  # the log may have forgotten rows of other tests
        assert not without.get("entries") and not pickled.get("entries")


def rank_of_a_part():
    half = [dist.new_group(ranks) for ranks in ([0, 2], [1])][dist.get_rank() % 2]
    dist.all_reduce(torch.ones(13), group=half)
    dump = dumped()
    return dump["pg_config"][half.group_name]["ranks"], [entry["process_group"] for entry in calls(dump)][-1][
        0
    ] == half.group_name


def test_a_group_of_some_ranks_says_which():
    assert harness.pool(3).run(rank_of_a_part) == [("[0, 2]", True), ("[1]", True), ("[0, 2]", True)]


def rank_is_timed():
    dist.distributed_c10d._get_default_group()._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(5), async_op=True)
    work.wait()
    dist.all_reduce(torch.ones(6), async_op=True)  # may be under way
    return work._get_duration(), [entry["duration_ms"] for entry in calls(dumped()) if entry["input_sizes"] == [[5]]]


def test_a_timed_call_says_how_long_it_took():
    with harness.fresh_pool(2, with_gloo=False) as own:
        for duration, in_dump in own.run(rank_is_timed):
            assert in_dump == [duration]


def rank_has_a_hook():
    """As PyTorch 2.15 keeps the hook of its recorder."""
    world, before = dist.distributed_c10d._world, len(calls(dumped()))
    hooks = getattr(world, "pg_flight_recorder_hooks", {})
    world.__dict__["pg_flight_recorder_hooks"] = {dist.distributed_c10d._get_default_group(): None}
    try:
        dist.all_reduce(torch.ones(5))
        with_hook = len(calls(dumped()))
    finally:
        del world.__dict__["pg_flight_recorder_hooks"]
    return len(hooks), with_hook, len(calls(dumped())) - before


@pytest.mark.skipif(harness.TORCH >= (2, 15), reason="every group has one")
def test_what_pytorch_records_by_itself_is_not_there_twice():
    with harness.fresh_pool(2, with_gloo=False) as own:  # no rows of earlier groups
        assert own.run(rank_has_a_hook) == [(0, 0, 1)] * 2


# ---- the analyser: torchfrtrace ----


def every_kind_of_call():
    """Sizes differ between ranks wherever they may."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.distributed_c10d._get_default_group()
    pieces = [torch.ones(1 + r) for r in range(size)]
    dist.all_reduce(torch.ones(3, 5))
    dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)])
    dist.all_reduce(torch.eye(4).to_sparse())
    dist.reduce(torch.ones(2), 1)
    dist.broadcast(torch.ones(2), 1)
    dist.reduce_scatter(torch.empty(2), [torch.ones(2)] * size)
    dist.reduce_scatter(torch.empty(1 + rank), pieces)
    group._reduce_scatter_base(torch.empty(2), torch.ones(2 * size)).wait()
    group.reduce_scatter_tensor_coalesced([torch.empty(2)] * 2, [torch.ones(2 * size)] * 2).wait()
    dist.all_gather([torch.empty(2, 3) for _ in range(size)], torch.ones(2, 3))
    group._allgather_base(torch.empty(2 * size), torch.ones(2)).wait()
    group.allgather_into_tensor_coalesced([torch.empty(2 * size)] * 2, [torch.ones(2)] * 2).wait()
    group.allgather_coalesced([[torch.empty(2)] for _ in range(size)], [torch.ones(2)]).wait()
    dist.gather(torch.ones(2), [torch.empty(2)] * size if rank == 1 else None, 1)
    dist.scatter(torch.empty(2), [torch.ones(2)] * size if rank == 1 else None, 1)
    dist.all_to_all([torch.empty(1 + rank) for _ in range(size)], pieces)
    splits = [1 + r for r in range(size)]
    dist.all_to_all_single(torch.empty((1 + rank) * size), torch.ones(sum(splits)), [1 + rank] * size, splits)
    dist.barrier()
    dist.monitored_barrier()
    if rank == 0:
        for i in range(3):
            dist.send(torch.ones(1 + i), 2)
        dist.send(torch.ones(7), 2, tag=5)
    elif rank == 2:
        for i in range(2):
            dist.recv(torch.empty(1 + i), 0)
        dist.recv(torch.empty(3))
        dist.recv(torch.empty(7), 0, tag=5)
    dist.all_reduce(torch.ones(2), group=harness.gloo())
    dist.barrier()


def dumps_after_every_kind():
    every_kind_of_call()
    return dumped()


def names_of_calls():
    return set(importlib.import_module("switchml").stats()["calls"])


def dumps_with_a_silent_rank():
    """Rank 1 makes no call that the others wait for, nor takes rank 0's message."""
    every_kind_of_call()
    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    if rank == 1:
        found = dumped()
        for other in (0, 2):
            store.get(f"dumped {other}")
        dist.all_reduce(torch.ones(11))
        dist.recv(torch.empty(4), 0)
        return found
    works = [dist.all_reduce(torch.ones(11), async_op=True)]
    if rank == 0:
        works.append(dist.isend(torch.ones(4), 1))
    found = dumped()
    store.set(f"dumped {rank}", "1")
    for work in works:
        work.wait()
    return found


def analysed(dumps, folder):
    """What the analyser prints, and the calls that it has found."""
    for rank, dump in enumerate(dumps):
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(dump))
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "-p", "rank_"]
    done = subprocess.run([*command, "-o", folder / "found"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with (folder / "found").open("rb") as stream:
        return done.stdout + done.stderr, pickle.load(stream)[1].collectives


@pytest.mark.parametrize("transport", ["auto", "udp"])
def test_the_analyser_matches_calls_of_every_kind(tmp_path, transport):
    with harness.fresh_pool(3, environment={"SWITCHML_TRANSPORT": transport}) as own:
        dumps = own.run(dumps_after_every_kind)
        every_kind = set().union(*own.run(names_of_calls))
    text, found = analysed(dumps, tmp_path)
    assert {
        entry["backend_call"].partition(":")[2].split(" ")[0] for dump in dumps for entry in calls(dump)
    } == every_kind
    for word in ("missing ranks", "has errors", "mismatch", "cannot decide", "Culprit"):
        assert word not in text, text
    assert all(call.pass_check and not call.missing_ranks for call in found), text
    assert len(found) >= 19 + 4 + 2  # collectives, messages, and those at the end


@pytest.mark.parametrize("transport", ["auto", "udp"])
def test_the_analyser_names_a_silent_rank(tmp_path, transport):
    with harness.fresh_pool(3, environment={"SWITCHML_TRANSPORT": transport}) as own:
        dumps = own.run(dumps_with_a_silent_rank)
    text, found = analysed(dumps, tmp_path)
    assert text.count("missing ranks: {1}") == text.count("missing ranks") == 2, text
    missing = [(call.collective_name, call.input_sizes) for call in found if call.missing_ranks]
    assert sorted(missing) == [("gloo:all_reduce", [[11]]), ("gloo:send 0->1", [[4]])]
