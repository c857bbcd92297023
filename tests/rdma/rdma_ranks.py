"""In the guest: ranks on two hosts reduce and train, over cards and over UDP: python rdma_ranks.py SWITCHD FOLDER
ARRANGEMENT...

FOLDER gets an ARRANGEMENT.json for each: by "card" and by "packets", what `answer` returns on each rank, and what
both cards have counted meanwhile. The ranks are forks of this process: PyTorch takes most of the time to load.
"""

import ctypes
import hashlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "python")]

import harness  # noqa: E402
import reducing_rank  # noqa: E402
import switchml  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

SWITCH = "10.1.0.2:48879"
#: Of what the second end sends, nothing arrives for 5 s: it is for another.
CUT = """
right=$(cat /sys/class/net/end1/address)
ip neighbour replace 10.1.0.1 dev end2 lladdr 02:00:00:00:00:01 nud permanent
sleep 5
ip neighbour replace 10.1.0.1 dev end2 lladdr "$right" nud permanent
"""
_CLONE_NEWNS, _MS_BIND = 0x20000, 0x1000
BOOT = "/proc/sys/kernel/random/boot_id"


def enter_host(name):
    """What tells hosts apart is when they were booted, and their network namespace, which cards have but one of."""
    libc = ctypes.CDLL(None, use_errno=True)
    told = pathlib.Path(os.environ["TMPDIR"], f"booted-{name}-{os.getpid()}")
    told.write_text(f"host-{name}\n")
    if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(str(told).encode(), BOOT.encode(), None, _MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace")
    os.environ["SWITCHML_INTERFACE"] = f"end{1 + ord(name) % 2}"


def digest(tensor):
    return hashlib.sha256(tensor.detach().view(torch.uint8).numpy().tobytes()).hexdigest()


def placed(tensor):
    """Where the card reaches it, if there is such memory."""
    return switchml.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)


def reduce(rank):
    """Of many types and lengths, and one of several windows of slots, which a card may reach."""
    tensors = reducing_rank.tensors(rank)
    large = torch.randn(300_001, generator=torch.Generator().manual_seed(rank))
    tensors.append((placed(large), dist.ReduceOp.SUM))
    for tensor, operation in tensors:
        dist.all_reduce(tensor, op=operation)
    return [digest(tensor) for tensor, _ in tensors]


def train(rank):
    """A few steps of DDP, with other data on each rank."""
    torch.manual_seed(1)
    nn = torch.nn
    layers = nn.Sequential(nn.Linear(40, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))
    begun = [digest(parameter) for parameter in layers.parameters()]
    model = nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + rank)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(16, 40)), torch.randint(10, (16,))).backward()
        optimizer.step()
    ended = [digest(parameter) for parameter in model.parameters()]
    assert all(before != after for before, after in zip(begun, ended, strict=True))
    return ended


def outlast(rank):
    """All-reduces until the wire has been cut for a while, and some more."""
    cut = subprocess.Popen(["bash", "-c", CUT]) if rank == 0 else None
    calls = more = 0
    tensor = placed(torch.empty(50_000))
    while more < 3:
        tensor.fill_(float(calls + rank))
        over = torch.tensor([int(cut is None or cut.poll() is not None)])
        dist.all_reduce(tensor)
        dist.all_reduce(over, op=dist.ReduceOp.MIN)
        calls, more = calls + 1, more + int(over)
        assert bool((tensor == 2 * calls - 1).all()), f"call {calls}: {tensor}"
    assert cut is None or cut.returncode == 0
    return []


WORK = {work.__name__: work for work in (reduce, train, outlast)}


def answer(work, hosts, settings):
    pool, rank = harness._rank_state["place"]
    enter_host(hosts[rank])
    os.environ.update(settings)
    dist.init_process_group(
        "switchml", init_method=f"file://{pool.folder}/store", rank=rank, world_size=pool.size,
        timeout=harness.seconds(300),
    )  # fmt: skip
    results, stats = WORK[work](rank), switchml.stats()
    dist.destroy_process_group()
    kept = ("session", "bytes_written_in_place")
    return {"results": results, **{name: stats[name] for name in kept}}


def count(counter):
    """Of both cards."""
    counters = pathlib.Path("/sys/class/infiniband").glob(f"card*/ports/1/hw_counters/{counter}")
    return sum(int(counter.read_text()) for counter in counters)


def counts():
    return {name: count(counter) for name, counter in (("sent", "sent_pkts"), ("given_up", "retry_exceeded_err"))}


BOTH = {"card": "rdma", "packets": "udp"}
#: What ranks do, the host of each, the switch, if not that of each host, and over what: ranks of one host sum first,
#: and round, unless UDP is named.
ARRANGEMENTS = {
    "two_hosts": ("reduce", "ab", "", BOTH),
    "four_ranks": ("reduce", "aabb", "", {**BOTH, "packets": "auto"}),
    "switch_of_two": ("reduce", "ab", SWITCH, BOTH),
    "switch_of_four": ("reduce", "abcd", SWITCH, BOTH),
    "cut": ("outlast", "ab", "", {"card": "rdma"}),
    "cut_off_switch": ("outlast", "ab", SWITCH, {"card": "rdma"}),
    "training": ("train", "ab", "", BOTH),
}


def arrange(work, hosts, switch, transport):
    before = counts()
    pool = harness.Pool(len(hosts), join_group=False, with_gloo=False)
    settings = {"SWITCHML_TRANSPORT": transport, "SWITCHML_SWITCH": switch, "SWITCHML_FAILURE_TIMEOUT": "200"}
    ranks = pool.run(answer, work, hosts, settings, timeout=600)
    pool.close()
    return {"ranks": ranks, **{name: after - before[name] for name, after in counts().items()}}


def main():
    switchd_path, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    switchd = subprocess.Popen([switchd_path, "--listen", SWITCH, "--rdma", "on", "--log-level", "info"])
    for name in names:
        work, hosts, switch, ways = ARRANGEMENTS[name]
        if work == "train":
            importlib.import_module("torch._dynamo")  # as DDP does: once for all ranks
        found = {}
        for way, transport in ways.items():
            begun = time.monotonic()
            found[way] = arrange(work, hosts, switch, transport)
            print(f"{name}, {transport}: {time.monotonic() - begun:.1f} s", flush=True)
        (folder / f"{name}.new").write_text(json.dumps(found))
        (folder / f"{name}.new").rename(folder / f"{name}.json")
    switchd.terminate()
    sys.exit(switchd.wait())


if __name__ == "__main__":
    main()
