"""PyTorch's flight recorder shows the calls of this backend with sizes and states."""

import json
import pickle

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
    return [entry for entry in dump["entries"] if entry["profiling_name"].startswith("switchml:")]


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
        names = [entry["profiling_name"].removeprefix("switchml:") for entry in entries]
        message = [["send"], ["recv"], []][rank]
        assert names == ["all_reduce", "all_gather", "barrier", *message, "monitored_barrier"]
        all_reduce, all_gather = entries[:2]
        assert all_reduce["input_sizes"] == all_reduce["output_sizes"] == [[3, 5]]
        assert all_reduce["input_dtypes"] == all_reduce["output_dtypes"] == ["Float"]
        assert all_gather["input_sizes"] == [[2]]
        assert all_gather["output_sizes"] == [[2]] * 3
        assert all_gather["output_dtypes"] == ["Long"] * 3
        assert 0 < all_reduce["timeout_ms"] <= harness.GROUP_TIMEOUT * 1000
        for entry in entries:
            assert entry["state"] == "completed", entry
            assert entry["retired"]
            assert (
                entry["time_created_ns"] <= entry["time_discovered_started_ns"] <= entry["time_discovered_completed_ns"]
            )
            assert tuple(entry["process_group"]) == ("0", "default_pg")
            assert entry["is_p2p"] == (entry["profiling_name"] in ("switchml:send", "switchml:recv"))
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


def rank_dumps_json():
    dist.all_reduce(torch.ones(2))
    dump = json.loads(c10d._dump_fr_trace_json(True, False))
    without = json.loads(c10d._dump_fr_trace_json(includeCollectives=False))
    return dump, without, dumped(includeCollectives=False)


def test_the_other_forms_of_a_dump_have_them_too():
    for dump, without, pickled in harness.pool(2).run(rank_dumps_json):
        last = calls(dump)[-1]
        assert (last["profiling_name"], last["state"], last["input_sizes"]) == (
            "switchml:all_reduce",
            "completed",
            [[2]],
        )
        assert dump["pg_status"][str(last["pg_id"])]["last_completed_collective"] == str(last["collective_seq_id"])
        assert [entry["record_id"] for entry in dump["entries"]] == list(range(len(dump["entries"])))
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
