"""Ranks in network namespaces, forked from one process that has imported PyTorch: python namespaced.py. Each line of
standard input is a job, {"number", "ranks": [{"namespace", "name", "hosts", "environment"}, ...]}, each rank of which
calls everything and is a doctor afterwards; the answer is a line "job NUMBER [...]" with what each of them says.

hosts: the rank's /etc/hosts; name: its host's name.
"""

import contextlib
import ctypes
import datetime
import io
import json
import os
import sys
import tempfile
import threading
import traceback
import types

import torch
import torch.distributed as dist

import switchml
from switchml import _doctor

PATIENCE = 90.0  # seconds of a job, which is less than lab.PATIENCE; the group and the doctor have a third each
NEW_MOUNTS, NEW_NAMES, BIND, RECURSIVE, PRIVATE = 0x00020000, 0x04000000, 0x1000, 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def move_to(rank):
    """This process is on the rank's host from now on."""
    with open(f"/run/netns/{rank['namespace']}") as namespace:
        check(libc.setns(namespace.fileno(), 0))
    check(libc.unshare(NEW_MOUNTS | NEW_NAMES))
    check(libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None))
    name = rank["name"].encode()
    check(libc.sethostname(name, len(name)))
    put("/etc/hosts", rank["hosts"])
    put("/etc/resolv.conf", "")  # no name server is waited for
    os.environ.update(rank["environment"])


def put(path, text):
    """In the place of a file, for this process; not where there is none."""
    if os.path.exists(path):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            check(libc.mount(file.name.encode(), path.encode(), None, BIND, None))


def call_everything():
    """What the group's session is like, if it opens and all is right."""
    dist.init_process_group("switchml", timeout=datetime.timedelta(seconds=PATIENCE / 3))
    wrong = _doctor.wrong_calls()
    session = switchml.stats()["session"]
    dist.destroy_process_group()
    return {"wrong": wrong, **session}


def be(rank):
    move_to(rank)
    torch.set_num_threads(1)
    said = {}
    try:
        said["session"] = call_everything()
    except (RuntimeError, ValueError) as error:
        said["error"] = str(error)
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        said["status"] = _doctor.run(types.SimpleNamespace(timeout=PATIENCE / 3))
    said["doctor"] = printed.getvalue()
    return said


def fork(rank):
    """Its process id, and the end of a pipe that gets what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(writing)
        return child, reading
    try:
        said = be(rank)
    except BaseException:
        said = {"error": traceback.format_exc()}
    with os.fdopen(writing, "w") as pipe:
        json.dump(said, pipe)
    os._exit(0)


def run(job):
    ranks = [fork(rank) for rank in job["ranks"]]
    late = threading.Timer(PATIENCE, lambda: [os.kill(child, 9) for child, _ in ranks])
    late.start()
    said = []
    for _child, reading in ranks:
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        said.append(json.loads(text) if text else {"error": "its process ended early"})
    late.cancel()
    for child, _ in ranks:
        os.waitpid(child, 0)
    print(f"job {job['number']} {json.dumps(said)}", flush=True)


def main():
    for line in sys.stdin:
        run(json.loads(line))


if __name__ == "__main__":
    main()
