"""One rank of the all-reduce benchmark: worker.py RANK SIZE STORE. It does what __main__.py tells it: the methods of
Bench in CALLS."""

import ctypes
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import pattern
import told
import torch
import torch.distributed as dist

MIN_CALLS, MAX_CALLS, WARM_UP_CALLS = 5, 500, 2
LONG = 0.1  # seconds of a call that needs no more warming up than one before it
VERY_LONG = 1.0  # that needs none


def resident_bytes():
    """Physical memory of this process, in bytes, without what the allocator keeps of freed tensors."""
    ctypes.CDLL(None).malloc_trim(0)
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def session_of(stats):
    """What a row says of it: embedded is the number of hosts that embed a switch."""
    return {
        "payload": stats["payload_bytes"],
        "precision": stats["precision"],
        "transport": stats["transport"],
        "embedded": stats["switch"].count("embedded in rank"),
    }


class Bench:
    """The groups: one of Gloo, one of switchml for each payload."""

    def __init__(self):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.groups = {}

    def open(self, backends, payloads, types, network):
        """What sessions were granted, in the order of the payloads asked for (None: as the environment says)."""
        self.patterns = {name: pattern.mine_and_sum(self.rank, self.ranks, getattr(torch, name)) for name in types}
        self.await_all = member.Pace(network)
        self.backends, granted = backends, []
        if "gloo" in backends:
            self.gloo = member.new_group("gloo")
        for payload in payloads if "switchml" in backends else ():
            import switchml

            group = member.new_group("switchml", payload)
            dist.all_reduce(torch.ones(1), group=group)  # which opens the session
            granted.append(session_of(switchml.stats(group)["session"]))
            self.groups[payload] = group
        self.resident = resident_bytes()
        return {"torch": torch.__version__, "sessions": granted}

    def call(self, backend, tensor, totals):
        """Seconds of one all-reduce. The input is made, the ranks wait for each other, and the one that it is behind
        begins, outside of the time."""
        for filled in (tensor, self.ahead):
            pattern.fill(filled, self.mine)
            if self.zeros:
                pattern.blocks(filled)[pattern.zero_blocks(filled, self.rank, self.zeros)] = 0
        group = self.gloo if backend == "gloo" else self.switchml
        before = member.surroundings()
        self.await_all()
        ahead = dist.all_reduce(self.ahead, group=group, async_op=True) if self.ahead.numel() else None
        cpu, begin = member.cpu_seconds(), time.perf_counter()
        dist.all_reduce(tensor, group=group)
        seconds = time.perf_counter() - begin
        member.add(totals, {"cpu_seconds": member.cpu_seconds() - cpu, **member.moved(before, member.surroundings())})
        if ahead is not None:
            ahead.wait()
        return seconds

    def verified_call(self, backend, tensor, totals):
        seconds = self.call(backend, tensor, totals)
        for checked in (tensor, self.ahead):
            expected = pattern.sparse_sum(checked, self.ranks, self.zeros) if self.zeros else self.sum
            at = pattern.first_difference(checked, expected)
            if at is not None:
                raise ValueError(
                    f"{backend}, {checked.numel()} elements: element {at} is {checked[at].item()!r}, "
                    f"should be {expected[at % expected.numel()].item()!r}"
                )
        return seconds

    def number_of_calls(self, tensor, probes, seconds, iters):
        """By the slowest backend's time, the same on every rank."""
        if iters:
            return iters
        if min(probes) < LONG:
            probes = member.slowest(
                [min(self.call(name, tensor, {}) for _ in range(WARM_UP_CALLS)) for name in self.backends]
            )
        return int(min(MAX_CALLS, max(MIN_CALLS, seconds / max(probes))))

    def turn(self, call, tensor, times, totals):
        """One call on every backend."""
        for name in self.backends:
            times[name].append(call(name, tensor, totals[name]))

    def tensor(self, count, arena):
        if not arena:
            return self.mine.new_empty(count)
        import switchml

        return switchml.empty(count, dtype=self.mine.dtype, group=self.switchml)

    def measure(self, size, kind, payload, seconds, iters, behind, arena, zeros):
        """Times of one size on every backend, interleaved, the first call and the last one of each verified, and what
        moved meanwhile. The first one counts only where it is so long that warming up does not matter. Each call comes
        right after one of `behind` bytes. With `arena` the tensors are those of switchml.empty(). `zeros`: this part
        of each rank's blocks is zero."""
        self.zeros = zeros
        self.mine, self.sum = self.patterns[kind]
        self.switchml = self.groups.get(payload)
        tensor, self.ahead = (self.tensor(count // self.mine.element_size(), arena) for count in (size, behind))
        before, times, totals = self.begin()
        self.turn(self.verified_call, tensor, times, totals)
        probes = member.slowest([times[name][0] for name in self.backends])
        calls = self.number_of_calls(tensor, probes, seconds, iters)
        if min(probes) < VERY_LONG:
            before, times, totals = self.begin()
        left = calls - len(times[self.backends[0]])
        for i in range(left):
            self.turn(self.call if i < left - 1 else self.verified_call, tensor, times, totals)
        counters = member.moved(before, member.switch_counters(self.switchml)) if self.switchml else {}
        return {"seconds": times, "totals": totals, "counters": counters, "memory": self.memory()}

    def begin(self):
        """Counters before, and where times and what moves will be."""
        times, totals = ({name: kind() for name in self.backends} for kind in (list, dict))
        return member.switch_counters(self.switchml) if self.switchml else {}, times, totals

    def memory(self):
        """Bytes: what switchml says it holds (engine, and the switch where it is embedded), and growth of the process
        since the groups were made."""
        held = 0
        if self.switchml:
            import switchml

            stats = switchml.stats(self.switchml)
            held = stats["memory_bytes"] + stats.get("switch", {}).get("memory_bytes", 0)
        return {"switchml_bytes": held, "process_growth_bytes": max(0, resident_bytes() - self.resident)}


if __name__ == "__main__":
    member.join()
    bench = Bench()
    told.serve({"open": bench.open, "measure": bench.measure})
    dist.destroy_process_group()
