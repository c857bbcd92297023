"""Small sums whose exponents are guessed from earlier steps: the bits of ranks that never guess, for want of slots."""

import os
import signal

import pytest
import torch
import torch.distributed as dist

import harness
from oracle import digest, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo knows nothing of this")

LAYERS = ((1, torch.float32), (300, torch.float32), (3000, torch.float32), (300, torch.float32), (40, torch.float16), (700, torch.bfloat16))
STEPS = 30
UDP = {"SWITCHML_TRANSPORT": "udp", "SWITCHML_PRECISION": "integer", "SWITCHML_PAYLOAD": "1024"}
WITHOUT = {**UDP, "SWITCHML_SLOTS": "4"}


def rank_trains(switch=None):
    """Steps of the same small sums, with numbers that change; a digest of all results, and what was guessed. Rank 0 kills that process
    on the way."""
    import switchml

    results = []
    for step in range(STEPS):
        for number, (size, kind) in enumerate(LAYERS):
            mine = values((size,), kind, dist.get_rank(), 100 * step + number)
            if step % 7 == 6:
                mine[size // 2] = (float("nan"), float("inf"), 65000.0, 0.0)[number % 4]
            if step == 20:
                mine *= 2.0**-9  # which no window holds
            work = dist.all_reduce(mine, op=dist.ReduceOp.AVG if number == 3 else dist.ReduceOp.SUM, async_op=True)
            if switch and (step, number) == (STEPS // 2, 2) and dist.get_rank() == 0:
                os.kill(switch, signal.SIGKILL)
            work.wait()
            results.append(mine)
    stats = switchml.stats()
    return digest(*results), stats["groups_speculated"], stats["groups_mispredicted"], stats["without_switch"]


def outcomes_of(size, **environment):
    with harness.fresh_pool(size, environment=environment, with_gloo=False) as own:
        outcomes = own.run(rank_trains)
    assert len(set(outcomes)) == 1, "ranks differ in their bits, or in what they guessed"
    return outcomes[0]


@pytest.mark.parametrize("size", (2, 4))
def test_the_bits_are_those_without_guesses(size):
    bits, guessed, _, _ = outcomes_of(size, **WITHOUT)
    assert guessed == 0
    for environment in ({}, {"SWITCHML_SHARDS": "2"}, {"SWITCHML_FAULTS": "seed=5,send_loss=0.02,receive_loss=0.02"}):
        found, guessed, missed, _ = outcomes_of(size, **UDP, **environment)
        assert found == bits
        assert guessed > STEPS * len(LAYERS) // 2
        assert 0 < missed < guessed / 2


def test_guesses_survive_the_loss_of_the_switch():
    from test_failures import FALLBACK, ranks_and_switch

    bits = outcomes_of(3, **WITHOUT)[0]
    with ranks_and_switch(3, {**FALLBACK, "SWITCHML_PRECISION": "integer"}) as (own, switch, _):
        outcomes = own.run(rank_trains, switch.pid)
        own.close()
    assert len(set(outcomes)) == 1
    found, guessed, _, without_switch = outcomes[0]
    assert without_switch == 1, "nobody has noticed"
    assert found == bits
    assert guessed > STEPS * len(LAYERS) // 2
