"""One rank of the benchmark of shared links: sharing_rank.py RANK SIZE STORE. It does what __main__.py tells it."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import told
import torch
import torch.distributed as dist


def join():
    import switchml

    dist.init_process_group("switchml", init_method=f"file://{sys.argv[3]}", rank=int(sys.argv[1]),
                            world_size=int(sys.argv[2]))  # fmt: skip
    dist.all_reduce(torch.ones(1))  # which opens the session
    return switchml.stats()["session"]


def run(size, begin, end):
    """All-reduces of `size` bytes from one moment to another, of the clock that all processes of this machine share:
    when each had ended. Each is verified. The last element says whether a rank's time is over."""
    ones, ended, before = torch.ones(size // 4), [], member.switch_counters(None)
    expected = torch.full_like(ones, float(dist.get_world_size()))
    time.sleep(max(0.0, begin - time.monotonic()))
    while True:
        tensor = ones.clone()
        tensor[-1] = float(time.monotonic() > end)
        dist.all_reduce(tensor)
        ended.append(time.monotonic())
        if not torch.equal(tensor[:-1], expected[:-1]):
            raise ValueError("a sum is wrong")
        if tensor[-1] > 0:
            return {"ended": ended, "counters": member.moved(before, member.switch_counters(None))}


def main():
    torch.set_num_threads(1)
    told.serve({"join": join, "run": run})


if __name__ == "__main__":
    main()
