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


def calls(group, tensor):
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        times.append(time.perf_counter() - begin)
    return times


def cost_of_pages(rounds):
    """{name: medians of each round}, and the median of their ratios."""
    import switchml

    groups = {
        name: dist.new_group(backend="switchml", timeout=member.TIMEOUT, pg_options=switchml.Options(live_view=view))
        for name, view in (("with_page", "auto"), ("without_page", "off"))
    }
    tensor, medians = torch.zeros(COUNT), {name: [] for name in groups}
    for turn in range(rounds):
        for name in sorted(groups, reverse=turn % 2 == 1):
            medians[name].append(statistics.median(calls(groups[name], tensor)))
    ratios = [page / none for page, none in zip(medians["with_page"], medians["without_page"])]
    return {**medians, "cost": statistics.median(ratios)}


def main():
    what = member.launched()
    cost = cost_of_pages(what["rounds"]) if dist.get_world_size() == 2 else {}
    named, seconds = name_stopped_ranks(what["trials"])
    member.finish([{"named": named, "seconds": seconds, **cost}])


if __name__ == "__main__":
    main()
