"""Groups at the end of the interpreter, which a script has destroyed, or not."""

import os
import subprocess
import sys

import pytest

import harness

PATIENCE = 120.0

FINALIZER = """
import atexit, sys, torch, torch.distributed as dist
backend, folder, rank, case = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
if backend != "gloo":
    import switchml

class Last:
    def __init__(self):  # nothing can be imported any more where __del__ runs, which new tensors need
        self.total, self.mine = torch.full((1000,), float(rank + 1)), torch.full((3,), float(rank))
        self.gathered = [torch.empty(3) for _ in range(2)]
    def __del__(self):
        dist.all_reduce(self.total)
        dist.broadcast(self.total, 1)
        dist.all_gather(self.gathered, self.mine)
        if backend != "gloo":  # whose processes abort now and then when a group is made here
            dist.all_reduce(self.mine, group=dist.new_group([0, 1]))
            assert self.mine[0] == 1
        print("sum", self.total[0].item(), "gathered", self.gathered[1][0].item(), flush=True)

@atexit.register  # runs behind what a group registers
def again():
    total = torch.ones(5)
    dist.all_reduce(total)
    print("at exit", total[0].item(), flush=True)

last = Last()
dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=2)
dist.all_reduce(torch.ones(10))
if case == "callbacks":
    works = [dist.all_reduce(torch.ones(100000), async_op=True) for _ in range(20)]
    futures = [work.get_future().then(lambda future: future.value()[0].sum().item()) for work in works]
    if backend != "gloo":
        group = dist.distributed_c10d._get_default_group()
        group = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
        group.register_abort_hook(1, lambda: print("a hook ran"))
if case == "raises":
    raise ValueError("the program ends")
"""


def run(program, *arguments, **environment):
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)],
                            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "SWITCHML_INTERFACE": "lo", **environment},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


@pytest.mark.parametrize("transport, case", (("shm", "rests"), ("udp", "callbacks"), ("shm", "raises")))
def test_a_finalizer_calls_collectives(tmp_path, transport, case):
    ranks = [run(FINALIZER, harness.BACKEND, tmp_path, rank, case, SWITCHML_TRANSPORT=transport) for rank in range(2)]
    told = [process.communicate(timeout=PATIENCE) for process in ranks]
    for process, (out, error) in zip(ranks, told):
        assert out == "at exit 2.0\nsum 3.0 gathered 1.0\n", told
        assert process.returncode == (1 if case == "raises" else 0), told
        assert "Exception ignored" not in error and ("Error" in error) == (case == "raises"), told


STORE = """
import sys, torch, torch.distributed as dist, switchml

class Store(dist.Store):  # no thread may ask it once the interpreter ends
    def __init__(self):
        super().__init__()
        self.below = dist.FileStore(sys.argv[1] + "/store", 2)

for name in ("set", "get", "add", "check", "wait", "compare_set", "delete_key", "num_keys"):
    setattr(Store, name, lambda self, *values, name=name: getattr(self.below, name)(*values))

dist.init_process_group("switchml", store=Store(), rank=int(sys.argv[2]), world_size=2)
dist.all_reduce(torch.ones(10))
print("made", flush=True)
"""


@pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo asks no store then")
@pytest.mark.skipif(harness.TORCH < (2, 0), reason="this PyTorch takes no store of Python")
def test_a_store_of_python(tmp_path):
    ranks = [run(STORE, tmp_path, rank, SWITCHML_TRANSPORT="udp") for rank in range(2)]
    assert [process.communicate(timeout=PATIENCE) for process in ranks] == [("made\n", "")] * 2
    assert [process.returncode for process in ranks] == [0, 0]


EXIT_SCRIPT = """
import sys, torch, torch.distributed as dist
import {backend}
dist.init_process_group("{backend}", init_method="file://{folder}/exit", rank=int(sys.argv[1]), world_size=2)
group = dist.new_group([0, 1])
x = torch.ones(1000)
dist.all_reduce(x)
dist.all_reduce(x, group=group)
kept = dist.all_reduce(torch.ones(100000), async_op=True)
{end}
print("end", x[0].item(), flush=True)
"""


@pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")
@pytest.mark.parametrize(
    "end",
    ("kept.wait()", "", "dist.destroy_process_group()", "raise SystemExit(print('end', x[0].item()))"),
    ids=("no destroy", "work in flight", "destroy with work in flight", "exit"),
)
def test_a_process_ends_with_its_script(end, tmp_path):
    script = EXIT_SCRIPT.format(backend=harness.BACKEND, folder=tmp_path, end=end)
    ranks = [run(script, rank) for rank in range(2)]
    for process in ranks:
        out, err = process.communicate(timeout=PATIENCE)
        assert "end 4.0" in out and process.returncode == 0, (out, process.returncode, err)
