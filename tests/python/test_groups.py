"""Groups of subsets: overlapping, at the same time, split off, destroyed and made again."""

import copy
import itertools
import socket
import sys

import pytest
import torch
import torch.distributed as dist

import harness


def rank_groups():
    """Overlapping groups of several sizes, used in turns, made and destroyed and made again."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):
        subsets = [members for count in range(1, size + 1) for members in itertools.combinations(range(size), count)][
            :11
        ]
        groups = [(members, dist.new_group(list(members))) for members in subsets]
        for members, group in groups + groups[::-1]:
            if rank not in members:
                continue
            total = torch.full((50,), 2.0**rank)
            dist.all_reduce(total, group=group)
            assert total.tolist() == [float(sum(2**r for r in members))] * 50, members
            sent = torch.full((3,), float(rank))
            dist.broadcast(sent, members[-1], group=group)
            assert sent.tolist() == [float(members[-1])] * 3
            assert dist.get_rank(group) == members.index(rank) and dist.get_world_size(group) == len(members)
        for members, group in groups:
            if rank in members:
                dist.destroy_process_group(group)


def test_groups_of_subsets(world):
    harness.pool(world).run(rank_groups)


def rank_groups_at_once():
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3]), dist.new_group([1, 2])]
    mine = [pairs[0]] if dist.get_rank() < 2 else [pairs[1]]
    tensors = [torch.ones(5000) for _ in range(10)]
    everyone = torch.ones(5000)
    works = [dist.all_reduce(x, group=mine[0], async_op=True) for x in tensors]
    works.append(dist.all_reduce(everyone, async_op=True))
    if dist.get_rank() in (1, 2):
        bridge = torch.ones(10)
        dist.all_reduce(bridge, group=pairs[2])
        assert bridge.tolist() == [2.0] * 10
    for work in works:
        work.wait()
    assert all(x.eq(2.0).all() for x in tensors) and everyone.eq(4.0).all()


def test_groups_at_the_same_time():
    harness.pool(4).run(rank_groups_at_once)


def rank_split_group(rank, port):
    """The group's own method: torch.distributed.split_group insists on an accelerator. It does not end on a
    FileStore."""
    dist.init_process_group(
        harness.BACKEND,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=4,
        timeout=harness.seconds(harness.GROUP_TIMEOUT),
    )
    world = dist.distributed_c10d._get_default_group()
    half = world.split_group([0, 1] if rank < 2 else [2, 3], group_name=f"half {rank // 2}", group_desc="half")
    assert half.size() == 2 and half.rank() == rank % 2
    total = torch.full((500,), float(rank))
    half.allreduce([total]).wait()
    assert total.tolist() == [1.0 if rank < 2 else 5.0] * 500
    dist.all_reduce(total)
    assert total.tolist() == [12.0] * 500
    dist.destroy_process_group()


@pytest.mark.skipif(
    not hasattr(dist.ProcessGroup, "split_group"),
    reason="this torch splits NCCL groups only, and only through the accelerator",
)
def test_split_group():
    port = harness.free_port(socket.SOCK_STREAM)
    with harness.fresh_pool(4, join_group=False) as own:
        for rank in range(4):
            own.start(rank_split_group, rank, port, ranks=[rank])
        own.finish()


def rank_destroy_and_make_again(folder):
    rank = dist.get_rank()
    for turn in range(3):
        total = torch.full((100,), float(rank + turn))
        dist.all_reduce(total)
        assert total.eq(1.0 + 2 * turn).all()
        dist.destroy_process_group()
        dist.init_process_group(
            harness.BACKEND,
            init_method=f"file://{folder}/again{turn}",
            rank=rank,
            world_size=2,
            timeout=harness.seconds(harness.GROUP_TIMEOUT),
        )


def test_a_group_destroyed_and_made_again(tmp_path):
    with harness.fresh_pool(2, with_gloo=False) as own:
        own.run(rank_destroy_and_make_again, str(tmp_path))
        own.close()


def rank_makes_and_destroys_a_group():
    group = dist.new_group([0, 1])
    total = torch.ones(3)
    dist.all_reduce(total, group=group)
    dist.barrier(group=group)
    dist.destroy_process_group(group)
    return total.tolist()


def resident():
    """KiB of memory that this process has, each page that it shares counted whole."""
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def rank_memory_of_groups(count):
    """KiB that a group takes when it is made, and in addition after a small sum."""
    few = [dist.new_group([0, 1]) for _ in range(5)]
    for group in few:
        dist.all_reduce(torch.ones(10), group=group)
    before = resident()
    groups = [dist.new_group([0, 1]) for _ in range(count)]
    made = resident()
    for group in groups:
        dist.all_reduce(torch.ones(10), group=group)
    return (made - before) / count, (resident() - made) / count


@pytest.mark.parametrize("transport, most", (("shm", 250), ("udp", 1000)))
def test_a_group_takes_little_memory_until_it_is_used(transport, most):
    with harness.fresh_pool(2, environment={"SWITCHML_TRANSPORT": transport}, with_gloo=False) as ranks:
        for made, used in ranks.run(rank_memory_of_groups, 10):
            assert made < most and used < 800


@pytest.mark.parametrize("transport", ("shm", "udp"))
def test_the_normal_end_of_a_group_is_not_told_as_a_failure(transport):
    with harness.fresh_pool(2, environment={"SWITCHML_LOG_LEVEL": "info", "SWITCHML_TRANSPORT": transport}) as ranks:
        assert ranks.run(rank_makes_and_destroys_a_group) == [[2.0] * 3] * 2
        for rank in range(2):
            log = ranks.log(rank, lines=1000)
            assert "joined job" in log, log  # what is informational is in it
            assert "abort" not in log and "shut down" not in log, log


@pytest.mark.parametrize("variables, told", (
    ({"TORCH_CPP_LOG_LEVEL": "INFO"}, ["joined job", "no setting"]),
    ({"TORCH_CPP_LOG_LEVEL": "0"}, ["joined job", "no setting"]),
    ({"TORCH_CPP_LOG_LEVEL": "ERROR"}, []),
    ({"TORCH_CPP_LOG_LEVEL": "INFO", "SWITCHML_LOG_LEVEL": "warning"}, ["no setting"]),
))  # fmt: skip
def test_the_log_has_the_level_of_pytorch_where_it_has_none_of_its_own(variables, told):
    with harness.fresh_pool(2, environment={"SWITCHML_MISSPELT": "1", **variables}, with_gloo=False) as ranks:
        logs = [ranks.log(rank, lines=1000) for rank in range(2)]
        assert [[text for text in ("joined job", "no setting") if text in log] for log in logs] == [told] * 2


# ---- what a group says of itself ----


def backend_of(group):
    """Before torch 2 a group is its backend."""
    return group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group


def about(group, calls):
    """Name, options and how many calls it counts, in the group's words and in its backend's."""
    backend = backend_of(group)
    said = []
    for asked in (group, backend):
        if hasattr(asked, "_set_sequence_number_for_group"):  # not in 2.14
            asked._set_sequence_number_for_group()
        before = asked._get_sequence_number_for_group()
        for call in calls:
            call(group)
        said.append((asked.name(), asked._get_sequence_number_for_group() - before))
    return said, backend.options.backend, backend.options._timeout


def rank_asks_groups():
    x = torch.ones(4)
    lists = [torch.empty(4) for _ in range(dist.get_world_size())]
    calls = [
        lambda group: dist.all_reduce(x, group=group),
        lambda group: dist.all_gather(lists, x, group=group),
        lambda group: dist.barrier(group=group),
        lambda group: dist.all_reduce(x, group=group, async_op=True).wait(),
    ]
    default = dist.distributed_c10d._get_default_group()
    # PyTorch hands a copy of the parent's options on where it splits a group.
    made = dist.new_group(timeout=harness.seconds(44), pg_options=copy.deepcopy(backend_of(default).options))
    told = [about(group, calls) for group in (harness.gloo(), default, made)]
    dist.destroy_process_group(made)
    return told


def test_a_group_tells_its_name_its_options_and_how_much_it_was_called():
    for gloo, default, made in harness.pool(3).run(rank_asks_groups):
        assert gloo[:2] == ([("gloo", 4)] * 2, "gloo")
        assert default == ([("switchml", 4)] * 2, "switchml", harness.seconds(harness.GROUP_TIMEOUT))
        assert made == ([("switchml", 4)] * 2, "switchml", harness.seconds(44))


# ---- the constructor ----


def group_over(store, **options):
    """What programs build that make their groups themselves, around a backend: torchft's, or tests."""
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = sys.modules["switchml"].ProcessGroup(store, rank, size, harness.seconds(44), **options)
    if not hasattr(dist.ProcessGroup, "_register_backend"):
        return backend, backend  # before torch 2 a group is its backend
    group = dist.ProcessGroup(store, rank, size)
    kind = dist.ProcessGroup.BackendType.CUSTOM
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, backend)
    return group, backend


def rank_constructs():
    import switchml

    store, rank = dist.PrefixStore("constructed", dist.distributed_c10d._get_default_store()), dist.get_rank()
    group, backend = group_over(store, options=switchml.Options(shards=2))
    total = torch.full((5000,), float(rank + 1))
    group.allreduce([total]).wait()
    outputs = [torch.empty(2) for _ in range(group.size())]
    group.allgather([outputs], [torch.full((2,), float(rank))]).wait()
    assert [int(output[0]) for output in outputs] == list(range(group.size()))
    group.barrier().wait()
    assert isinstance(backend, switchml.ProcessGroup) and switchml.stats(backend)["session"]["shards"] == 2
    default = backend_of(dist.distributed_c10d._get_default_group())
    assert isinstance(default, switchml.ProcessGroup) and not isinstance(
        backend_of(harness.gloo()), switchml.ProcessGroup
    )
    for values, part in (({"rank": 7}, "rank 7 of"), ({"options": {"slots": 1}}, "slots"), ({"options": 3}, "int")):
        arguments = {"rank": 0, "size": 1, "options": None, **values}
        assert part in harness.caught(lambda: switchml.ProcessGroup(dist.HashStore(), **arguments))
    alone = switchml.ProcessGroup(dist.HashStore(), rank=0, size=1)
    assert (backend.options._timeout, alone.options._timeout) == (harness.seconds(44), harness.seconds(1800))
    for made in (alone, backend):
        if hasattr(made, "shutdown"):  # which PyTorch 1.13 does not have
            made.shutdown()
    return total[0].item()


def test_a_group_made_by_its_constructor():
    assert harness.pool(3).run(rank_constructs) == [6.0] * 3
