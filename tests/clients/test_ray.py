"""Ray's collective groups and Ray Train over this backend, with the real package: `make test-clients`."""

import importlib.util
import os
import sys

import pytest

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is not installed: make test-clients")

RANKS, COUNT = 2, 1000


@pytest.fixture(scope="module")
def ray():
    import ray

    here = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(num_cpus=RANKS, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": here})
    yield ray
    ray.shutdown()


class Rank:
    """An actor. Every call is one of all ranks."""

    def __init__(self, rank):
        import switchml.ray_groups  # noqa: F401

        self.rank = rank

    def sums(self, name):
        import numpy
        import torch
        from ray.util import collective

        import switchml

        mine = torch.full((COUNT,), self.rank + 1.0)
        parts = [torch.full((COUNT,), 10.0 * part + self.rank) for part in range(RANKS)]
        gathered = [torch.empty(COUNT) for _ in range(RANKS)]
        array = numpy.full(COUNT, self.rank, numpy.float32)
        collective.allgather(gathered, mine, name)
        collective.allreduce(mine, name)
        collective.reducescatter(own := torch.empty(COUNT), parts, name)
        collective.broadcast(array, 1, name)
        (collective.send if self.rank == 0 else collective.recv)(array, 1 - self.rank, name)
        collective.barrier(name)
        calls = switchml.stats(collective.collective.get_group_handle(name)._pg)["calls"]
        collective.destroy_collective_group(name)
        return [each.unique().tolist() for each in (mine, own, *gathered, torch.as_tensor(array))], calls


@pytest.mark.parametrize("name", ("default", "another"))
def test_a_collective_group(ray, name):
    import switchml.ray_groups  # noqa: F401
    from ray.util import collective

    actors = [ray.remote(Rank).remote(rank) for rank in range(RANKS)]
    collective.create_collective_group(actors, RANKS, list(range(RANKS)), "switchml", name)
    told = ray.get([actor.sums.remote(name) for actor in actors])
    for rank, (values, calls) in enumerate(told):
        assert values == [[3.0], [20.0 * rank + 1.0], [1.0], [2.0], [1.0]]
        assert {"all_gather", "all_reduce", "reduce_scatter", "broadcast"} <= set(calls)
        assert all(set(ways) == {"memory"} for ways in calls.values())


def test_ray_train_takes_the_backend_by_its_name(ray, tmp_path):
    from ray import train
    from ray.train.torch import TorchConfig, TorchTrainer

    def work():
        import torch
        import torch.distributed as dist

        tensor = torch.ones(COUNT)
        dist.all_reduce(tensor)
        return {"backend": dist.get_backend(), "sum": tensor.unique().tolist()}

    trainer = TorchTrainer(
        work,
        torch_config=TorchConfig(backend="switchml"),
        scaling_config=train.ScalingConfig(num_workers=RANKS),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
    )
    assert trainer.fit().return_value == {"backend": "switchml", "sum": [RANKS]}
