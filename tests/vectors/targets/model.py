"""The reference model as a data plane: shows that vectors and model say the same, and what generate.py expects."""

import random

from vectors import model
from vectors.targets import COUNTERS, Capabilities, Session, Target, TargetError


class ModelTarget(Target):
    name = "model"
    capabilities = Capabilities(payload=63 * 1024, workers=128, short=True, shards=True, tree=True, exact=True)

    def __init__(self, switch_class=model.ReferenceSwitch):
        self.switch_class = switch_class
        self.reset()

    def reset(self):
        self.random = random.Random(1)
        self.switch = self.switch_class()

    def open_session(self, spec, job=None):
        free = [number for number in range(1, 256) if number not in self.switch.sessions]
        if job is not None and job not in free:
            raise TargetError(f"session {spec.name}: job {job} is taken")
        chosen = Session(job or self.random.choice(free), self.random.randrange(1, 2**32), self.random.getrandbits(64))
        self.switch.sessions[chosen.job] = model.Session(chosen.job, chosen.epoch, spec, chosen.key)
        return chosen

    def close_session(self, name):
        job = next(job for job, session in self.switch.sessions.items() if session.spec.name == name)
        del self.switch.sessions[job]

    def send(self, sender, frame):
        return self.switch.receive(sender, frame)

    def counters(self):
        return {name: self.switch.counters.get(name, 0) for name in COUNTERS}
