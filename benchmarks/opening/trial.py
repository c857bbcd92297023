"""One opening of a group: its ranks are forks of this process, which must have no threads."""

import contextlib
import datetime
import json
import os
import resource
import select
import time

import lab
import launch

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # or importing makes threads
import switchml
import torch
import torch.distributed as dist

TORCH = torch.__version__
PATIENCE = 300.0  # seconds
TIMEOUT = datetime.timedelta(seconds=PATIENCE)
switchml.settings()  # loads the compiled part
torch.set_num_threads(1)


class CountingStore(dist.Store):
    """Another store, whose use it counts. Waiting for a key is a read, and so is asking whether it is there."""

    def __init__(self, store):
        super().__init__()
        self.store, self.counts = store, dict.fromkeys(("reads", "writes", "read_bytes", "written_bytes"), 0)

    def read(self, size=0):
        self.counts["reads"] += 1
        self.counts["read_bytes"] += size

    def write(self, size):
        self.counts["writes"] += 1
        self.counts["written_bytes"] += size

    def clone(self):
        return self

    def set(self, key, value):
        self.write(len(value))
        self.store.set(key, value)

    def get(self, key):
        value = self.store.get(key)
        self.read(len(value))
        return value

    def add(self, key, amount):
        self.write(8)
        return self.store.add(key, amount)

    def compare_set(self, key, expected, desired):
        self.write(len(desired))
        return self.store.compare_set(key, expected, desired)

    def check(self, keys):
        self.read()
        return self.store.check(keys)

    def wait(self, keys, timeout=TIMEOUT):
        self.read()
        self.store.wait(keys, timeout)

    def has_extended_api(self):
        return False


class Rank:
    """A process that answers one line for each time that it is let go."""

    def __init__(self, body, others):
        self.answers, answers = os.pipe()
        go, self.go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            launch.end_with_parent()
            for each in others:  # or it would not see its own end
                os.close(each.go)
                os.close(each.answers)
            os.close(self.go)
            os.close(self.answers)
            self.be(body, go, answers)
        os.close(go)
        os.close(answers)

    @staticmethod
    def be(body, go, answers):
        status = 1
        try:

            def meet(found=None):
                os.write(answers, json.dumps(found).encode() + b"\n")
                os.read(go, 1)

            body(meet)
            status = 0
        except BaseException as error:
            os.write(answers, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        finally:
            os._exit(status)

    def hear(self, end):
        text = b""
        while not text.endswith(b"\n"):
            ready = select.select([self.answers], [], [], max(0.0, end - time.monotonic()))[0]
            if not (more := os.read(self.answers, 1 << 16) if ready else b""):
                raise lab.LabError(f"process {self.pid} has not answered: {text!r}")
            text += more
        answer = json.loads(text)
        if isinstance(answer, dict) and "error" in answer:
            raise lab.LabError(answer["error"])
        return answer

    def end(self):
        os.close(self.go)
        os.close(self.answers)
        os.waitpid(self.pid, 0)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def serve_store(host):
    def body(meet):
        store = dist.TCPStore("0.0.0.0", 0, None, True, wait_for_workers=False)
        meet(store.port)

    return lambda meet: inside(host, lambda: body(meet))


def inside(host, call):
    with lab.inside(host) if host else contextlib.nullcontext():
        return call()


def use(group, size):
    tensor = torch.ones(16)
    dist.all_reduce(tensor, group=group)
    if not bool((tensor == size).all()):
        raise ValueError(f"the sum of {size} ranks is {tensor.tolist()}")


def rank(backend, number, size, host, address, settings, counts):
    """What it meets with: nothing; when its group was open and used, and its CPU seconds; the same of a second group.
    Where it counts: what it asked of the store, each time."""

    def body(meet):
        os.environ.update(settings)
        # A fork copies the pages that it writes to: those of Python's side of a group, which are none of an opening.
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        use(None, 1)
        dist.destroy_process_group()
        store = dist.TCPStore(*address, None, False)
        store = CountingStore(store) if counts else store
        meet()
        before = cpu_seconds()
        dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=TIMEOUT)
        opened, asked = time.monotonic(), dict(store.counts) if counts else {}
        use(None, size)
        meet({"ended": [opened, time.monotonic()], "CPU": cpu_seconds() - before, **asked})
        group = dist.new_group(backend=backend, timeout=TIMEOUT)
        opened = time.monotonic()
        use(group, size)
        meet({"ended": [opened, time.monotonic()]})
        dist.destroy_process_group()

    return lambda meet: inside(host, lambda: body(meet))


def together(ranks):
    """Lets all go; returns when that was, and what they answer."""
    begin = time.monotonic()
    for each in ranks:
        os.write(each.go, b".")
    end = begin + PATIENCE
    return begin, [each.hear(end) for each in ranks]


def trial(backend, size, hosts, settings, counts):
    ranks = []
    server = Rank(serve_store(hosts[0]), ranks)
    try:
        address = ("127.0.0.1" if hosts[0] is None else "10.79.0.1", server.hear(time.monotonic() + PATIENCE))
        for number in range(size):
            host = hosts[number * len(hosts) // size]
            body = rank(backend, number, size, host, address, settings, counts)
            ranks.append(Rank(body, [server, *ranks]))
        for each in ranks:
            each.hear(time.monotonic() + PATIENCE)
        stages = [together(ranks), together(ranks)]
        for each in ranks:
            os.write(each.go, b".")
    finally:
        for each in [*ranks, server]:
            each.end()
    return stages


def timed(backend, size, hosts, settings):
    """Seconds, by step of __main__.py."""
    (begin, first), (later, second) = trial(backend, size, hosts, settings, False)
    opened, used = (max(answer["ended"][i] for answer in first) - begin for i in (0, 1))
    again, used_again = (max(answer["ended"][i] for answer in second) - later for i in (0, 1))
    cpu = sum(answer["CPU"] for answer in first)
    return {"open": opened, "used": used, "new_group": again, "its use": used_again, "CPU": cpu}


def counted(backend, size, hosts, settings):
    """What init_process_group asks of the store, of all ranks together."""
    (_, first), _ = trial(backend, size, hosts, settings, True)
    return {what: sum(answer[what] for answer in first) for what in first[0] if what not in ("ended", "CPU")}
