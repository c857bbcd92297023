"""Python programs that begin with PyTorch and switchml imported, which takes 1.5 s of a processor: forks of one
process.

`start` is for tests; `python forked.py` is that process. It takes requests on a socket that is its standard input, each
with the standard input of the program, its log, and a pipe for what is told of it: its number, and its status at last.
"""

import functools
import importlib
import json
import os
import pathlib
import runpy
import signal
import socket
import subprocess
import sys
import time

MAX_REQUEST = 1 << 18
CLONE_NEWNET = 0x40000000


class Forked:
    """As a subprocess.Popen."""

    def __init__(self, told, stdin):
        self._told, self._text, self.returncode = told, b"", None
        self.stdin = stdin
        while b"\n" not in self._text:
            self._read()
        os.set_blocking(told, False)
        self.pid = int(self._text)

    def _read(self):
        if not (more := os.read(self._told, 100)):
            raise OSError(f"it was not forked, or not to its end: {self._text!r}")
        self._text += more

    def poll(self):
        if self.returncode is None:
            try:
                self._read()
                self.returncode = int(self._text.split()[1])
                os.close(self._told)
            except BlockingIOError:
                pass
        return self.returncode

    def wait(self, timeout=float("inf")):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


@functools.cache
def forker():
    """The socket of this process' forker, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno())
    return ours


def start(script, *arguments, log, namespace=None, stdin=subprocess.DEVNULL, **environment):
    """log: a file that is open. stdin: subprocess.PIPE, or DEVNULL."""
    request = {"script": str(script), "arguments": list(map(str, arguments)), "namespace": namespace,
               "environment": {**os.environ, **environment}}  # fmt: skip
    told, tells = os.pipe()
    reads, writes = os.pipe() if stdin == subprocess.PIPE else (os.open(os.devnull, os.O_RDONLY), None)
    socket.send_fds(forker(), [json.dumps(request).encode()], [reads, log.fileno(), tells])
    os.close(reads)
    os.close(tells)
    return Forked(told, None if writes is None else os.fdopen(writes, "wb"))


# ---- in the forker ----


def watch(request, stdin, log, tells):
    """Forks the program and tells of it; in the fork, returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    program = os.fork()
    if program == 0:
        for to, end in enumerate((stdin, log, log)):
            os.dup2(end, to)
        os.closerange(3, 1 + max(stdin, log, tells))
        return
    os.close(stdin)
    os.write(tells, f"{program}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    os.write(tells, f"{status}\n".encode())
    os._exit(0)


def be(request):
    if request["namespace"]:
        import ctypes

        with open(f"/run/netns/{request['namespace']}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {request['namespace']}")
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0] = str(pathlib.Path(request["script"]).parent)
    runpy.run_path(request["script"], run_name="__main__")


def main():
    for name in ("torch.distributed", "switchml"):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=0) as requests:
        while True:
            request, ends, _, _ = socket.recv_fds(requests, MAX_REQUEST, 3)
            if not request:
                return
            if os.fork() == 0:
                watch(request, *ends)
                requests.detach()
                break
            for end in ends:
                os.close(end)
    be(json.loads(request))


if __name__ == "__main__":
    main()
