"""One rank of the benchmark of the live view, under torchrun: worker.py STORE WHAT, as JSON (see __main__.py)."""

import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import torch
import torch.distributed as dist

CALLS, COUNT = 60, 1024  # of a round, and float32 of a call


def name_stopped_ranks(trials):
    """(how often the rank was named, seconds that the command took each time), on rank 0."""
    group = dist.new_group(backend="switchml", timeout=member.TIMEOUT)
    pids = [None] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    choose, tensor, named, seconds = random.Random(1), torch.empty(COUNT), 0, []
    for _ in range(trials):
        victim = choose.randrange(1, len(pids))
        dist.barrier()
        if dist.get_rank() == 0:
            os.kill(pids[victim], signal.SIGSTOP)
        work = dist.all_reduce(tensor.fill_(1), group=group, async_op=True)
        if dist.get_rank() == 0:
            command = [sys.executable, "-m", "switchml", "status", "--pid", str(os.getpid())]
            begin = time.monotonic()
            said = subprocess.run(command, capture_output=True, text=True).stdout
            seconds.append(time.monotonic() - begin)
            named += f"\nrank {victim} (" in said and f"process {pids[victim]}) is stopped" in said
            os.kill(pids[victim], signal.SIGCONT)
        work.wait()
        if not bool((tensor == len(pids)).all()):
            raise ValueError("the sum is wrong after a rank was stopped")
    return named, seconds


def seconds_of(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def calls():
    """What measures a round of calls in a group."""
    tensor = torch.zeros(COUNT)

    def median_call(group):
        return statistics.median(seconds_of(lambda: dist.all_reduce(tensor, group=group)) for _ in range(CALLS))

    return median_call


def steps():
    """What measures a training step with 25 MiB of gradients, which a group adds in DDP's buckets."""
    layers = [torch.nn.Linear(1024, 1024) for _ in range(6)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    adding = []

    def hook(_, bucket):
        work = dist.all_reduce(bucket.buffer(), group=adding[0], async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)
    batch = torch.ones(16, 1024)

    def step(group):
        adding[:] = [group]
        return seconds_of(lambda: model(batch).sum().backward())

    return step


def cost_of_pages(rounds):
    """{what: {name: seconds of each round, "cost": the median of their ratios}}"""
    import switchml

    views = (("with_page", "auto"), ("without_page", "off"))
    groups = {
        name: dist.new_group(backend="switchml", timeout=member.TIMEOUT, pg_options=switchml.Options(live_view=view))
        for name, view in views
    }
    costs = {}
    for what, measure in (("calls", calls()), ("steps", steps())):
        times = {name: [] for name in groups}
        for turn in range(rounds):
            for name in sorted(groups, reverse=turn % 2 == 1):
                times[name].append(measure(groups[name]))
        ratios = [page / none for page, none in zip(times["with_page"], times["without_page"])]
        costs[what] = {**times, "cost": statistics.median(ratios)}
    return costs


def main():
    what = member.launched()
    costs = cost_of_pages(what["rounds"]) if dist.get_world_size() == 2 else {}
    named, seconds = name_stopped_ranks(what["trials"])
    member.finish([{"named": named, "seconds": seconds, "costs": costs}])


if __name__ == "__main__":
    main()
