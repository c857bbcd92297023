"""Runs a vector against a P4 program, and before each contribution has it come broken off, or be lost between two
passes. Neither is answered, and the vector's results must be as if it had not been. [DROP-1, SLOT-7]"""

import random

from vectors import runner, wire

# A frame without no more than Ethernet's checksum and a card's may be read with these in the words' place.
FEWEST_MISSING = 9


class Troubled(runner.Runner):
    """`several`: segments of a payload, between whose passes packets are lost."""

    def __init__(self, target, seed, several=False):
        super().__init__(target)
        self._random = random.Random(seed)
        self._several = several

    def send(self, step):
        frame = step.packet.encode(self.sessions)
        name = step.sender.split(".")[0]
        if len(frame) >= wire.HEADER.bytes and frame[0] & 15 == wire.KINDS["contribution"] and name in self.live:
            if self._several and self._random.random() < 0.5:
                with self.target.loss_before(name, self._random.choice((1, 2, 3))):
                    self._expect_none(step, self.target.send(step.sender, frame))
            missing = self._random.randint(FEWEST_MISSING, len(frame))
            self._expect_none(step, self.target.send_broken_off(step.sender, frame, missing))
        super().send(step)

    def _expect_none(self, step, got):
        if got:
            self.fail(step.line, "an answer to what did not come whole:\n" + runner.difference([], got))

    def count(self, step):
        """What came broken off is counted too, or makes a duplicate of what follows."""
