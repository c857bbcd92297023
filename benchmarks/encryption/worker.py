"""One rank of the benchmark of encryption: worker.py RANK SIZE STORE. It does what __main__.py tells it: the methods of
Bench."""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import computation
import member
import pattern
import told
import torch
import torch.distributed as dist

MIN_CALLS, PROBES, WARM_UP = 3, 3, 1


class Bench:
    """Two groups, one of which encrypts."""

    def open(self):
        import switchml

        self.groups, self.compute = {}, computation.Computation()
        for name in ("off", "on"):
            os.environ["SWITCHML_ENCRYPTION"] = name
            self.groups[name] = member.new_group("switchml")
            dist.all_reduce(torch.ones(1), group=self.groups[name])  # which opens the session
            session = switchml.stats(self.groups[name])["session"]
            if session["encryption"] != name:
                raise ValueError(f"SWITCHML_ENCRYPTION={name}, but encryption is {session['encryption']}")
        return {"torch": torch.__version__, "session": session}

    def block(self, name, tensor, mine, total, steps, calls):
        """Seconds in each call, and seconds of all threads of this process but for what lies between the calls."""
        times = []
        dist.barrier()
        beside, cpu = 0.0, member.cpu_seconds()
        for _ in range(calls):
            begin = time.thread_time()
            self.compute(steps)
            pattern.fill(tensor, mine)
            beside += time.thread_time() - begin
            begin = time.perf_counter()
            dist.all_reduce(tensor, group=self.groups[name])
            times.append(time.perf_counter() - begin)
        cpu = member.cpu_seconds() - cpu - beside
        at = pattern.first_difference(tensor, total)
        if at is not None:
            raise ValueError(f"encryption {name}, {tensor.numel()} elements: element {at} is {tensor[at].item()!r}")
        return {"seconds": times, "cpu": cpu}

    def measure(self, size, gap, seconds, rounds):
        """[{group: block}, ...], a round each."""
        tensor, steps = torch.empty(size // 4), round(gap * 1e-6 / self.compute.seconds)
        mine, total = pattern.mine_and_sum(dist.get_rank(), dist.get_world_size(), tensor.dtype)
        one = [tensor, mine, total, steps]
        probes = [max(self.block(name, *one, WARM_UP + PROBES)["seconds"][WARM_UP:]) for name in self.groups]
        (slowest,) = member.slowest([max(probes)])
        calls = max(MIN_CALLS, int(seconds / (slowest + gap * 1e-6)))
        return [
            {name: self.block(name, *one, calls) for name in sorted(self.groups, reverse=turn % 2 == 1)}
            for turn in range(rounds)
        ]


if __name__ == "__main__":
    member.join()
    bench = Bench()
    told.serve({"open": bench.open, "measure": bench.measure})
    dist.destroy_process_group()
