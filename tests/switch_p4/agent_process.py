"""switchml-bmv2-agent as a process in a switch's namespace, with a client. Importing this is an ImportError without
gRPC."""

import os
import pathlib
import queue
import select
import signal
import subprocess
import sys
import threading

import grpc
import pytest
from switchml_agent import api

from vectors.targets import bmv2_switch as bmv2

CONTROL = 3  # number of the control port
TOKEN = "a token for tests"
TIMEOUT = 60


def environment():
    """Where the agent finds the package that this test found."""
    found = (str(pathlib.Path(api.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}


class Agent:
    def __init__(self, switch, folder, *more, ip=bmv2.SWITCH_IP, mac=bmv2.SWITCH_MAC):
        self.switch = switch
        self.listen = f"unix:{folder}/agent.sock"
        token = folder / "token"
        token.write_text(f"{TOKEN}\n", encoding="utf-8")
        command = [
            "ip", "netns", "exec", switch.namespace, sys.executable, "-m", "switchml_agent", "bmv2",
            "--thrift", "127.0.0.1:9090", "--listen", self.listen, "--control-interface", f"h{CONTROL}",
            "--control-port", str(CONTROL), "--address", ip, "--mac", mac,
            "--station", f"{bmv2.MARKER_MAC}={CONTROL}", "--token-file", str(token), "--log-level", "warning", *more,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        line = self.process.stdout.readline() if ready else ""
        if line != f"listening on {self.listen}\n":
            self.process.kill()
            raise AssertionError(f"the agent said {line!r}, {self.process.communicate()[1]!r}")
        self.channel = grpc.insecure_channel(self.listen)
        self.stub = api.Stub("DataPlane", self.channel)

    def call(self, name, request, token=TOKEN):
        return getattr(self.stub, name)(request, timeout=TIMEOUT, metadata=api.bearer(token))

    def status(self, name, request, token=TOKEN):
        """(code, text) of a call that must fail."""
        with pytest.raises(grpc.RpcError) as error:
            self.call(name, request, token)
        return error.value.code().name, error.value.details()

    def stop(self):
        """(exit code, what it wrote to stderr)"""
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        errors = self.process.communicate(timeout=TIMEOUT)[1]
        return self.process.returncode, errors


class Stream:
    """A controller that takes control packets."""

    def __init__(self, agent):
        self.call = agent.stub.PacketsIn(api.messages.PacketsInRequest(), timeout=TIMEOUT, metadata=api.bearer(TOKEN))
        self.call.initial_metadata()  # from here on nothing is missed
        self.packets, self.end = queue.Queue(), None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for packet in self.call:
                self.packets.put(packet)
        except grpc.RpcError as error:
            self.end = error.code().name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call.cancel()
        self.thread.join(TIMEOUT)
