"""One rank of the planning benchmark: gradient_rank.py RANK SIZE STORE. It does what __main__.py tells it: the methods
of Training in CALLS."""

import datetime
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import pattern
import told
import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(minutes=5)


class Training:
    def __init__(self):
        torch.set_num_threads(1)
        self.rank, self.size, self.store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        self.mine, self.sum = pattern.mine_and_sum(self.rank, self.size, torch.float32)
        self.groups = 0

    def join(self, backend):
        """What the session is; nothing for other backends."""
        self.groups += 1
        if backend == "switchml":
            import switchml
        dist.init_process_group(backend, init_method=f"file://{self.store}.{self.groups}", rank=self.rank,
                                world_size=self.size, timeout=TIMEOUT)  # fmt: skip
        dist.all_reduce(torch.ones(1))  # which opens the session
        return switchml.stats()["session"] if backend == "switchml" else {}

    def measure(self, size, iterations):
        """Seconds of each all-reduce of `size` bytes, on this rank, and what moved meanwhile. The first one warms up.
        Each is verified."""
        tensor, seconds = torch.empty(size // 4), []
        for turn in range(iterations + 1):
            pattern.fill(tensor, self.mine)
            dist.barrier()
            if turn == 1:
                before, counters = member.surroundings(), self.counters()
            begin = time.perf_counter()
            dist.all_reduce(tensor)
            seconds.append(time.perf_counter() - begin)
            at = pattern.first_difference(tensor, self.sum)
            if at is not None:
                raise ValueError(f"element {at} is {tensor[at].item()!r}, not {self.sum[at % pattern.PERIOD].item()!r}")
        moved = member.moved(before, member.surroundings())
        return {"seconds": seconds[1:], "moved": moved, "counters": member.moved(counters, self.counters())}

    def counters(self):
        return member.switch_counters(None) if dist.get_backend() == "switchml" else {}

    def part(self):
        dist.destroy_process_group()


def main():
    training = Training()
    told.serve({"join": training.join, "measure": training.measure, "part": training.part})


if __name__ == "__main__":
    main()
