"""One rank of the benchmark of hooks: worker.py RANK SIZE STORE. It does what __main__.py tells it: the methods of
Bench."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import pattern
import told
import torch
import torch.distributed as dist

BUCKETS = 2


def sent_bytes():
    """What the links of this network namespace have sent, but for that to itself."""
    lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()[2:]
    columns = [line.replace(":", " ").split() for line in lines]
    return sum(int(row[9]) for row in columns if row[0] != "lo")


class Bucket:
    """What a hook sees of DDP's. Elements are -n, 0 and n of n ranks: up to 15 ranks nothing has to be rounded."""

    def __init__(self, index, size):
        self.place, self.memory = index, torch.empty(size)
        tables = [pattern.table(rank, 2) * dist.get_world_size() for rank in range(dist.get_world_size())]
        self.mine, self.mean = tables[dist.get_rank()], torch.stack(tables).mean(0)

    def index(self):
        return self.place

    def buffer(self):
        return self.memory

    def gradients(self):
        return [self.memory]

    def is_last(self):
        return self.place == BUCKETS - 1

    def fill(self):
        pattern.fill(self.memory, self.mine)

    def check(self, way):
        at = pattern.first_difference(self.memory, self.mean)
        if at is not None:
            raise ValueError(f"{way}, bucket {self.place}: element {at} is {self.memory[at]}")


class Bench:
    def open(self, names):
        self.group = member.new_group("switchml")
        import switchml
        from switchml import hooks

        self.ways = {"float32": self.all_reduce}
        for name in names:
            self.ways[name] = self.hooked(getattr(hooks, name), hooks.State(self.group, member.new_group("switchml")))
        dist.barrier(group=self.group)
        self.pace = member.Pace(True)
        session = switchml.stats(self.group)["session"]
        return {"torch": torch.__version__, "transport": session["transport"]}

    def all_reduce(self, bucket):
        return dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, self.group, async_op=True)

    @staticmethod
    def hooked(hook, state):
        return lambda bucket: hook(state, bucket)

    def measure(self, size, steps):
        """{way: {"seconds": of each step, "bytes": of all}}"""
        buckets = [Bucket(index, size // 4 // BUCKETS) for index in range(BUCKETS)]
        for way in self.ways:  # the first ones
            self.step(way, buckets, verified=True)
        found = {way: {"seconds": [], "bytes": 0} for way in self.ways}
        for turn in range(steps):
            for way in self.ways:
                before = sent_bytes()
                found[way]["seconds"].append(self.step(way, buckets, verified=turn == steps - 1))
                dist.barrier(group=self.group)  # What it sends is of one rank's memory or a few packets.
                found[way]["bytes"] += sent_bytes() - before
        return found

    def step(self, way, buckets, verified):
        for bucket in buckets:
            bucket.fill()
        self.pace()
        begin = time.perf_counter()
        for done in [self.ways[way](bucket) for bucket in buckets]:
            done.wait()
        seconds = time.perf_counter() - begin
        if verified:
            for bucket in buckets:
                bucket.check(way)
        return seconds


if __name__ == "__main__":
    member.join()
    bench = Bench()
    told.serve({"open": bench.open, "measure": bench.measure})
    dist.destroy_process_group()
