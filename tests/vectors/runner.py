"""Runs a vector against a target."""

import collections

from vectors import vector as steps
from vectors import wire


class VectorFailure(Exception):
    """The data plane did something else than the vector says."""


class Runner:
    """Runs vectors against one target. `trace(text)`, if given, is told every packet."""

    def __init__(self, target, trace=None):
        self.target = target
        self.trace = trace or (lambda text: None)

    def run(self, vector):
        """Raises VectorFailure with file and line at the first difference. The target must have what it `needs`."""
        self.vector = vector
        self.sessions = {}  # by name, ended ones too
        self.live = set()
        self.target.reset()
        self.counted = self.target.counters()
        actions = {steps.Open: self.open, steps.Close: self.close, steps.Send: self.send, steps.Count: self.count}
        for step in vector.steps:
            actions[type(step)](step)
        for name in sorted(self.live):
            self.target.close_session(name)

    def fail(self, line, text):
        raise VectorFailure(f"{self.vector.path}:{line}: {text}")

    def open(self, step):
        former = self.sessions.get(step.same_job_as)
        opened = self.target.open_session(step, former.job if former else None)
        self.trace(f"{step.line}: session {step.name}: job {opened.job}, epoch {opened.epoch:#x}")
        if opened.epoch == 0 or not 1 <= opened.job <= 255:
            self.fail(
                step.line, f"session {step.name} got job {opened.job} (1 to 255) and epoch {opened.epoch} (not 0)"
            )
        if former and opened.job != former.job:
            self.fail(step.line, f"session {step.name} got job {opened.job} instead of {former.job}")
        if former and opened.epoch == former.epoch:
            self.fail(step.line, f"session {step.name} got the epoch of {step.same_job_as} again")
        self.sessions[step.name] = opened
        self.live.add(step.name)

    def close(self, step):
        self.target.close_session(step.name)
        self.live.remove(step.name)

    def send(self, step):
        frame = step.packet.encode(self.sessions)
        self.trace(f"{step.line}: from {step.sender}: {wire.describe(frame)}")
        got = self.target.send(step.sender, frame)
        for to, answer in got:
            self.trace(f"{step.line}:   to {to}: {wire.describe(answer)}")
        expected = [(to, expect.packet.encode(self.sessions)) for expect in step.expects for to in expect.to]
        if collections.Counter(got) != collections.Counter(expected):
            line = step.expects[0].line if step.expects else step.line
            self.fail(line, f"after the packet of line {step.line}:\n" + difference(expected, got))

    def count(self, step):
        now = self.target.counters()
        moved = {name: value - self.counted[name] for name, value in now.items()}
        self.counted = now
        self.trace(f"{step.line}: counted { ({name: by for name, by in moved.items() if by}) }")
        wrong = [
            f"{name} moved by {by}, expected {step.changes.get(name, 0)}"
            for name, by in moved.items()
            if by != step.changes.get(name, 0)
        ]
        if wrong:
            self.fail(step.line, "since the last count: " + "; ".join(wrong))


def difference(expected, got):
    """Expected and received packets that have no counterpart, at most four of each; where two of them differ in words
    only, the first such word."""
    missing = list((collections.Counter(expected) - collections.Counter(got)).elements())
    surplus = list((collections.Counter(got) - collections.Counter(expected)).elements())
    lines = []
    for title, packets in (("missing", missing), ("not expected", surplus)):
        lines += [f"  {title}: to {to}: {wire.describe(frame)}" for to, frame in packets[:4]]
        if len(packets) > 4:
            lines.append(f"  {title}: {len(packets) - 4} more")
    if missing and surplus:
        lines += first_word(missing[0][1], surplus[0][1])
    return "\n".join(lines)


def first_word(expected, got):
    try:
        pairs = zip(wire.decode(expected).words, wire.decode(got).words)
    except (ValueError, IndexError):
        return []
    at = next(((i, want, have) for i, (want, have) in enumerate(pairs) if want != have), None)
    return [f"  word {at[0]}: expected {at[1]}, got {at[2]}"] if at else []
