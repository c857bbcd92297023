"""The software switch, driven packet by packet through softswitch_target (a process without sockets)."""

import contextlib
import dataclasses
import os
import pathlib
import select
import subprocess
import sys
import time

from vectors import vector, wire
from vectors.targets import COUNTERS, Capabilities, Session, Target, TargetError

ANSWER_SECONDS = 20
REQUESTS = wire.PROTOCOL["requests"]
OPENER = "opener"  # the address that opens and closes


def default_executable():
    """In the build folder that belongs to the Python that runs."""
    environment = pathlib.Path(sys.prefix).name
    folder = f"build{environment.removeprefix('.venv') if '.venv-' in environment else ''}"
    return wire.ROOT / folder / "tests/vectors/softswitch_target"


class Driver:
    """The process: commands as lines in, answers as lines out. softswitch_target.cc has the list."""

    def __init__(self, executable):
        try:
            self.process = subprocess.Popen([str(executable)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise TargetError(f"{executable}: {error.strerror}; build it with: ninja softswitch_target") from error
        self.pending = b""

    def ask(self, command):
        """The lines of the answer."""
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self.died(command) from error
        lines = []
        deadline = time.monotonic() + ANSWER_SECONDS
        while not lines or lines[-1] != "done":
            lines.append(self.line(command, deadline))
            if lines[-1].startswith("error "):
                raise TargetError(f"softswitch_target: {lines[-1][6:]}")
        return lines[:-1]

    def line(self, command, deadline):
        out = self.process.stdout.fileno()
        while b"\n" not in self.pending:
            if not select.select([out], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TargetError(f"softswitch_target: no answer within {ANSWER_SECONDS} s to {command[:80]!r}")
            more = os.read(out, 1 << 16)
            if not more:
                raise self.died(command)
            self.pending += more
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode()

    def died(self, command):
        return TargetError(f"softswitch_target ended with status {self.process.wait()} at {command[:80]!r}")

    def stop(self):
        # It may have ended already, with something unread. The end of its input does not show where a process that was
        # forked since then holds the pipe, too.
        with contextlib.suppress(OSError):
            self.process.stdin.write(b"quit\n")
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class SoftSwitchTarget(Target):
    name = "softswitch"
    capabilities = Capabilities(
        payload=63 * 1024, workers=128, short=True, control=True, shards=True, tree=True, exact=True
    )

    def __init__(self, executable, whole=False):
        """`whole`: as a switch that takes no words or a whole payload, and nothing between."""
        self.executable = executable
        self.driver = Driver(executable)
        if whole:
            self.name = "softswitch-whole"
            self.capabilities = dataclasses.replace(self.capabilities, short=False, whole=True, exact=False)
        self.sessions = {}
        self.opened = 0

    def reset(self):
        if self.driver.process.poll() is not None:  # crashed in the vector before
            self.driver.stop()
            self.driver = Driver(self.executable)
        self.driver.ask("reset whole" if self.capabilities.whole else "reset")
        self.sessions = {}

    def close(self):
        self.driver.stop()

    def send(self, sender, frame):
        answers = self.driver.ask(f"frame {sender} {frame.hex()}")
        return [(to, bytes.fromhex(data)) for _, to, data in (line.split(" ") for line in answers)]

    def counters(self):
        values = dict(line.split(" ") for line in self.driver.ask("counters"))
        return {name: int(values[name]) for name in COUNTERS}  # the software switch's names are the vectors' names

    def open_session(self, spec, job=None):
        if spec.part_of_tree:
            return self.install(spec, job)
        reply = self.open(spec)
        granted = (reply["slots"], reply["payload"])
        if granted != (spec.slots, spec.payload):
            raise TargetError(
                f"session {spec.name}: asked for {spec.slots} slots of {spec.payload} B, granted {granted}"
            )
        if bool(reply["flags"] & wire.OPEN_EXACT) != spec.exact:
            raise TargetError(f"session {spec.name}: {'no ' * spec.exact}exact session granted")
        # A number that was freed comes again after all others had their turn.
        while job not in (None, reply["job"]):
            self.leave(reply, 1)
            reply = self.open(spec)
        self.sessions[spec.name] = (spec, reply)
        for worker in range(spec.workers):
            for shard in range(spec.shards):
                self.join(reply, worker, shard, vector.endpoint(spec.name, worker, shard))
        return Session(reply["job"], reply["epoch"], reply["session_key"])

    def close_session(self, name):
        spec, reply = self.sessions.pop(name)
        if spec.part_of_tree:
            self.driver.ask(f"remove {reply.job} {reply.epoch}")
        else:
            self.leave(reply, spec.workers)

    def install(self, spec, job):
        """A part of a tree, as a controller tells a switch of it."""
        self.opened += 1
        taken = {reply["job"] if isinstance(reply, dict) else reply.job for _, reply in self.sessions.values()}
        number = job or next(number for number in range(255, 0, -1) if number not in taken)
        chosen = Session(number, 0xC0DE0000 + self.opened, 0xFEED << 48 | self.opened if spec.exact else 0)
        uplink = f"{spec.uplink} {spec.parent}" if spec.uplink is not None else "- -"
        members = ",".join(map(str, spec.members))
        named = f"{chosen.job} {chosen.epoch}"
        shape = f"{spec.shards} {spec.slots} {spec.payload} {members} {uplink} {int(spec.exact)} {chosen.key}"
        self.driver.ask(f"install {named} {shape}")
        for worker in spec.members:
            for shard in (-1,) if worker in spec.children else range(spec.shards):
                self.driver.ask(f"member {named} {worker} {shard} {spec.address(worker, max(shard, 0))}")
        self.sessions[spec.name] = (spec, chosen)
        return chosen

    def open(self, spec):
        self.opened += 1
        asked = {"client_key": self.opened, "workers": spec.workers, "shards": spec.shards, "slots": spec.slots,
                 "flags": wire.OPEN_EXACT * spec.asks_exact}  # fmt: skip
        return wire.Layout("open_reply").unpack(self.request("open", OPENER, payload=spec.payload, **asked))

    def join(self, opened, worker, shard, sender):
        asked = {"worker": worker, "shard": shard, **proof(opened)}
        reply = wire.Layout("join_reply").unpack(self.request("join", sender, "prove_address", **asked))
        self.request("join", sender, cookie=reply["cookie"], **asked)

    def leave(self, opened, workers):
        for worker in range(workers):
            self.request("close", OPENER, worker=worker, **proof(opened))

    def request(self, kind, sender, status="ok", **body):
        """The body of the reply to a control request, which must have that status."""
        start = wire.CONTROL.pack(version=wire.VERSION, kind=wire.KINDS["request"], type=REQUESTS[kind])
        answers = [data for _, data in self.send(sender, wire.checked(start + wire.Layout(kind).pack(**body)))]
        right = [data for data in answers if wire.checked(data[: -wire.CHECK.bytes]) == data]
        if len(answers) != 1 or [wire.CONTROL.unpack(d)["status"] for d in right] != [wire.PROTOCOL["status"][status]]:
            raise TargetError(f"{kind} {body}: not answered with {status}: {[data.hex() for data in answers]}")
        return right[0][wire.CONTROL.bytes : -wire.CHECK.bytes]


def proof(opened):
    return {name: opened[name] for name in ("session_key", "epoch", "job")}
