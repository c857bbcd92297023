"""A network that loses, repeats, delays and damages packets: the same bits, or an error."""

import contextlib
import os
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import harness
from failing import EMBEDDED, doomed_pool, rank_statistics, standalone_switch, with_switch
from harness import free_port
from oracle import check_reduction, digest, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")


FAULTS = "seed={seed},send_loss=0.02,receive_loss=0.02,duplicate=0.02,delay=0.02"


def rank_through_faults():
    digests = []
    for seed, (dtype, count) in enumerate(
        ((torch.float32, 150000), (torch.int32, 5000), (torch.float16, 70000), (torch.float32, 3), (torch.int64, 9000))
    ):
        inputs = [values((count,), dtype, rank, seed) for rank in range(dist.get_world_size())]
        if seed == 0:
            inputs[0][1000] = float("inf")
        mine = inputs[dist.get_rank()].clone()
        dist.all_reduce(mine)
        if seed:
            check_reduction(mine, inputs, "SUM")
        digests.append(digest(mine))
    import switchml

    return digests, switchml.stats()["retransmissions"]


@pytest.mark.parametrize("seed, payload", ((1, "1024"), (2, "1408")))
def test_a_lossy_network_gives_the_same_bits(seed, payload):
    with doomed_pool(3, environment=EMBEDDED) as own:
        clean = own.run(rank_through_faults)
    # Small packets, so that there are thousands to lose.
    with doomed_pool(3, environment={**EMBEDDED, "SWITCHML_PAYLOAD": payload}) as own:
        clean_small = own.run(rank_through_faults)
    lossy_environment = {"SWITCHML_PAYLOAD": payload, "SWITCHML_FAULTS": FAULTS.format(seed=seed)}
    with doomed_pool(3, environment=lossy_environment) as own:
        lossy = own.run(rank_through_faults)
    assert [d for d, _ in lossy] == [d for d, _ in clean_small], "loss changed the result"
    assert [d for d, _ in clean_small] == [d for d, _ in clean], "the payload size changed the result"
    assert sum(again for _, again in lossy) > 0, "nothing was lost: the test tests nothing"


def rank_through_damage():
    """True, or the text of the error that the group ends in; a wrong sum raises."""
    for seed in range(20):
        inputs = [values((20000,), torch.int32, rank, seed) for rank in range(dist.get_world_size())]
        mine = inputs[dist.get_rank()].clone()
        message = harness.caught(dist.all_reduce, mine)
        if message:
            return message
        check_reduction(mine, inputs, "SUM")
    return True


DAMAGE = {**EMBEDDED, "SWITCHML_PAYLOAD": "1024", "SWITCHML_FAULTS": "seed=3,corrupt=0.02"}


def test_damaged_integers_end_in_an_error_never_in_a_wrong_sum():
    """A bit that flips before the switch has summed cannot be repaired by anybody; it must be seen."""
    with doomed_pool(3, environment={**DAMAGE, "SWITCHML_PRECISION": "integer"}) as own:
        outcomes = own.run(rank_through_damage)
    assert all(outcome is not True for outcome in outcomes), "nothing was damaged: the test tests nothing"
    assert any("damaged" in outcome for outcome in outcomes), outcomes


def test_damaged_elements_are_sent_again():
    """Whoever receives a packet sees by its checksum that it is damaged."""
    with doomed_pool(3, environment=DAMAGE) as own:
        assert own.run(rank_through_damage) == [True] * 3
        statistics = own.run(rank_statistics)
    assert statistics[0]["switch"]["dropped_checksum"] > 0, "nothing was damaged: the test tests nothing"
    assert sum(rank["retransmissions"] for rank in statistics) > 0


def rank_groups_through_damage(place):
    """How many damaged requests the switch has dropped, if it is one of ours."""
    dropped = 0
    for seed in range(6):
        damage = {**place, "SWITCHML_FAULTS": f"seed={seed},corrupt=0.2"}
        with mock.patch.dict(os.environ, damage):
            group = dist.new_group()
        if damage["SWITCHML_PRECISION"] == "exact":
            mine = torch.arange(1000.0) + dist.get_rank()
            dist.all_reduce(mine, group=group)
            assert mine.tolist() == [2.0 * i + 1 for i in range(1000)]
        dropped += rank_statistics(group).get("switch", {}).get("control_malformed", 0)
        dist.destroy_process_group(group)
    return dropped


@pytest.mark.parametrize("precision", ("exact", "integer"))
@pytest.mark.parametrize("place", ("embedded", "switchml-switchd"))
def test_damaged_requests_are_sent_again(place, precision):
    """Groups open and close though every fifth packet of theirs is damaged, among them what they ask of the switch."""
    settings = {**EMBEDDED, "SWITCHML_PRECISION": precision}
    with contextlib.ExitStack() as stack:
        if place != "embedded":
            port = free_port()
            stack.enter_context(standalone_switch(port))
            settings |= with_switch(f"127.0.0.1:{port}")
        own = stack.enter_context(doomed_pool(2, environment=EMBEDDED))
        dropped = own.run(rank_groups_through_damage, settings)
    assert place != "embedded" or sum(dropped) > 0, "nothing was damaged: the test tests nothing"
