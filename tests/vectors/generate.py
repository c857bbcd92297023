"""Writes a random vector: python tests/vectors/generate.py --seed N [--packets M] [--workers W] [--payload B] [--full]

What comes out is expected as model.py says, which is written from docs/protocol.md and knows no data plane. The same
arguments give the same text.
"""

import argparse
import itertools
import pathlib
import random
import re
import sys
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from vectors import elements, packed, parse, partial, wire
from vectors.targets.model import ModelTarget

COUNT_EVERY = 20  # packets
EXACT = [
    (kind, operation) for k, kind in enumerate(elements.NAMES) for o, operation in enumerate(elements.OPERATIONS)
    if elements.has_operation(k, o, 1)
]  # fmt: skip
EXTREMES = (0, 1, -1, 0x7FFFFFFF, 0x7FFFFFFE, -0x80000000, -0x7FFFFFFF)
FIRST_SEQS = (1, 1, 1, 2, 0x7FFFFFF0, 0xFFFFFFF0, 0xFFFFFFFB)


class Slot:
    """Which use of a slot the workers are at, who is still to contribute, and what was sent in it before."""

    def __init__(self, seq, members):
        self.sent = []  # statements without `repeat`
        self.members = members
        self.begin(seq)

    def begin(self, seq):
        self.seq = seq
        self.waiting = list(self.members)


class Generator:
    """Makes statements, has the model answer them, and writes both down."""

    def __init__(self, seed, packets, workers=8, payload=1024, full=False):
        self.random = random.Random(seed)
        self.packets, self.workers, self.payload, self.full = packets, workers, payload, full
        self.parser = parse.Parser(pathlib.Path(f"seed {seed}"))
        self.model = ModelTarget()
        self.sessions = {}  # live and ended, by name: what the model chose
        self.slots = {}  # of live sessions: name -> [Slot]
        self.lines = []
        self.counted = self.model.counters()
        self.made = self.made_at_count = 0  # packets

    def text(self, command):
        for _ in range(self.random.randint(1, 3)):
            self.open()
        while self.made < self.packets:
            self.step()
            if self.made - self.made_at_count >= COUNT_EVERY or self.made >= self.packets:
                self.count()
        return self.written(
            [
                f"# A random sequence ({command}): any difference between a data plane and the",
                "# model of the protocol.",
            ]
        )

    def written(self, head):
        """The vector, which begins with these lines."""
        for what, (value, _) in self.parser.required.items():
            head.append(f"needs {what}" + ("" if value is True else f" {value}"))
        return "\n".join(head + self.lines) + "\n"

    # ---- what happens ----

    def step(self):
        kinds = {self.contribute: 74, self.repeat: 10, self.stale: 4, self.skip: 2, self.fault: 8, self.exact_fault: 4,
                 self.pass_down: 3, self.reopen: 0.5}  # fmt: skip
        self.random.choices(list(kinds), list(kinds.values()))[0]()

    def contribute(self):
        name, number, slot = self.pick()
        if not slot.waiting:
            slot.begin(2 if slot.seq == 0xFFFFFFFF else slot.seq + 1)
        worker = slot.waiting.pop(self.random.randrange(len(slot.waiting)))
        statement = f"send {name}.{worker} {self.fields(number, slot.seq, name)}"
        slot.sent = slot.sent[-3 * len(slot.members) :] + [statement]
        self.send(statement)

    def repeat(self):
        """As a duplicate or as a stale packet."""
        _, _, slot = self.pick()
        if slot.sent:
            statement = self.random.choice(slot.sent)
            if self.random.random() < 0.2:
                what = " elements=" if " elements=" in statement else " words="
                statement = statement.partition(what)[0] + what + "none"
            self.send(statement + self.random.choice(("", " repeat")))

    def stale(self):
        name, number, slot = self.pick()
        back = self.random.choice((2, 2, 3, 4, 40, 2**30, 2**31))
        self.send(f"send {self.member(name)} {self.fields(number, (slot.seq - back) % 2**32, name)}")

    def skip(self):
        """The use is given up where it stands; a later one takes over."""
        _, _, slot = self.pick()
        slot.begin((slot.seq + self.random.choice((1, 2, 2, 4, 40))) % 2**32 or 2)
        self.contribute()

    def pass_down(self):
        """The parent of a leaf says something; whatever it says, the leaf does not look at its slots."""
        leaves = [name for name in self.slots if self.parser.sessions[name].uplink is not None]
        if not leaves:
            return self.contribute()
        name = self.random.choice(leaves)
        number, seq = self.random.randrange(4), self.random.randrange(1, 2**32)
        if self.parser.sessions[name].exact:
            return self.pass_down_exact(name, number)
        fields = self.fields(number, seq)
        spoiled = [fields] * 6 + [
            fields.replace(f"slot={number}", "slot=4"),
            fields + " kind=2 worker=255 epoch=" + name + "+1",
            fields + " kind=1",
            f"{fields} kind=2 worker=255 {self.cut(name, fields)}",
        ]
        self.send(f"send {name}.parent {self.random.choice(spoiled)}")

    def pass_down_exact(self, name, number):
        """Mostly of the use that the slot holds."""
        seq = (self.slots[name][number].seq + self.random.choice((0, 0, 0, 0, 1, -1, -2))) % 2**32 or 1
        payload = self.parser.sessions[name].payload
        fields = self.exact_fields(number, seq, payload, is_result=True).replace(" wants-none", "")
        result = fields + " kind=6 worker=255"
        spoiled = [fields] * 8 + [
            result + " checksum=wrong",
            fields + f" kind=6 worker=255 epoch={name}+1",
            self.exact_fields(number, seq, payload).replace(" wants-none", "") + " kind=5",
            f"{result} {self.cut(name, result)}",
            fields.replace(f"slot={number}", "slot=4"),
        ]
        self.send(f"send {name}.parent {self.random.choice(spoiled)}")

    def fault(self):
        name, number, slot = self.pick(exact=False)
        if name is None:
            return self.contribute()
        session = self.parser.sessions[name]
        faults = [
            f"epoch={name}+{self.random.choice((1, 2**31))}",
            "job=unused",
            f"worker={self.random.choice((session.workers, 200, 255))}",
            f"worker={self.random.randrange(session.workers)}",
            f"version={self.random.choice((0, 1, 15))}",
            f"kind={self.random.choice((0, 2, 4, 6, 9, 14, 15))}",
            f"op={self.random.choice((2, 3))}",
            f"flags={self.random.choice((4, 0x10, 0xF0))}",
        ]
        fields = self.fields(number, slot.seq)
        fault = self.random.choice([*faults, self.cut(name, fields), self.cut(name, fields)])
        if fault == "kind=2":  # for another worker than 255 a data plane may count what it likes
            fault += " worker=255"
        if fault.startswith("op=") or fault == "kind=6":
            fields = fields.replace(" op=max", "")
        if fault == "kind=6":  # an exact type and operation, or a data plane may count that they do not exist
            fields = re.sub(r"\bexponent=\d+", "exponent=1", fields)
        self.send(f"send {self.member(name)} {fields} {fault}")
        more = [
            f"send {self.member(name)} slot={number} seq=0",
            f"send {self.member(name)} slot={self.random.choice((session.slots, 65535))} seq={slot.seq}",
            f"send {self.member(name)} slot={number} seq={slot.seq} words=1*{session.payload // 4 + 1}",
            f"send {self.member(name)} slot={number} seq={slot.seq} words=none cut={self.random.randint(1, 20)}",
            f"send stranger job={name} epoch={name} worker=0 {fields}",
        ]
        self.send(self.random.choice(more))

    def exact_fault(self):
        """A contribution to an exact session that is wrong in one thing, often its checksum; or to another session."""
        name, number, slot = self.pick(exact=True)
        if name is None:
            return self.contribute()
        fields = self.exact_fields(number, slot.seq, self.parser.sessions[name].payload)
        faults = ["checksum=wrong"] * 6 + [
            self.cut(name, fields),
            f"epoch={name}+1",
            "job=unused",
            f"worker={self.random.choice((self.parser.sessions[name].workers, 255))}",
            f"version={wire.VERSION - 1}",
            f"kind={self.random.choice((0, 2, 4, 6, 9, 14, 15))}",
            "flags=0xf0",
        ]
        self.send(f"send {self.member(name)} {fields} {self.random.choice(faults)}")
        start = f"send {self.member(name)} slot={number} seq={slot.seq}"
        others = [other for other in self.slots if not self.parser.sessions[other].exact]
        more = [
            f"send {self.member(name)} slot={number} seq=0 elements=1",
            f"{start} type={self.random.choice((14, 15))} elements=none",
            f"{start} op={self.random.choice(('and', 'xor', 14, 15))} elements=1",
            f"{start} type=bool op={self.random.choice(('sum', 'min', 'product'))} elements=1",
            f"{start} divisor={self.random.choice((0, 129, 255))} elements=1",
            f"{start} op=max divisor=2 elements=1",
            f"{start} op=none elements=1",
            f"{start} elements=1,2 less={self.random.randint(1, 3)}",
            f"{start} elements=1*{self.parser.sessions[name].payload // 4 + 1}",
            f"{start} elements=none cut={self.random.randint(1, 24)}",
            f"{start} words=none",
            f"send stranger job={name} epoch={name} worker=0 {fields}",
            *(f"send {self.member(other)} slot=0 seq=1 elements=1" for other in others[:1]),
        ]
        self.send(self.random.choice(more))

    def cut(self, name, fields):
        """At any byte of such a packet."""
        packet = self.parser.contribution(fields.split(), name, 0).encode(self.sessions)
        return f"cut={self.random.choice(self.cuts(packet))}"

    def cuts(self, packet):
        """How many bytes may be left off: where all chunks are as long as the payload, not so that a shorter one is
        left."""
        header = wire.HEADER.bytes
        left = [
            size for size in range(len(packet)) if not self.full or size <= header or (size - header) % wire.WORD_BYTES
        ]
        return [len(packet) - size for size in left]

    def reopen(self):
        name = self.random.choice(list(self.slots))
        self.do(f"close {name}")
        self.model.close_session(name)
        del self.slots[name]
        self.open(f" job={name}")

    # ---- what it is made of ----

    def pick(self, exact=None):
        """A session, of the sort that is asked for, and one of its slots; None if there is no such session."""
        names = [name for name in self.slots if exact in (None, self.parser.sessions[name].exact)]
        if not names:
            return None, 0, None
        name = self.random.choice(names)
        # Of a large session one slot alone, or no use would ever be complete.
        many = len(self.parser.sessions[name].members) > 16
        number = 0 if many else self.random.randrange(len(self.slots[name]))
        return name, number, self.slots[name][number]

    def member(self, name):
        return f"{name}.{self.random.choice(self.parser.sessions[name].members)}"

    def fields(self, slot, seq, name=""):
        if name and self.parser.sessions[name].exact:
            return self.exact_fields(slot, seq, self.parser.sessions[name].payload)
        # The operation follows from slot and seq: workers of one use never disagree about it.
        operation = " op=max" if (slot + seq // 2) % 3 == 0 else ""
        exponent = self.random.choice((0, 0, self.random.randrange(65536)))
        witness = self.random.getrandbits(32)
        return f"slot={slot} seq={seq}{operation} exponent={exponent} witness={witness:#x} words={self.words()}"

    def exact_fields(self, slot, seq, payload, is_result=False):
        """What workers must agree about follows from slot and seq, but for some who do not agree."""
        use = random.Random(slot << 32 | seq)
        kind, operation = use.choice(EXACT)
        element = elements.TYPES[kind]
        divides = operation == elements.TO_FLOAT32 or element.floating and operation in ("sum", "partial")
        divisor = use.choice((1, 2, 3, 128)) if divides else 1
        own_divisor = use.choice((0, 129, 1000, 1024)) if divisor == 1 else 0
        length = 1 if isinstance(element, elements.Scaled) else use.randint(1, 9)
        first = use.randint(1, length)
        may_be_packed = operation not in ("none", "partial", elements.TO_FLOAT32)
        if may_be_packed and use.random() < 0.2:  # of several blocks
            length = payload // element.size
            first = use.randint(1, min(length, packed.BLOCK))
        call = use.getrandbits(32)
        if self.random.random() < 0.02:
            call, length = self.random.choice(((0, length), (call, length + 1)))
        given = "none"
        if operation != "none" and self.random.random() < 0.85:
            is_partial = operation == "partial" and not is_result
            told = elements.TYPES["float32"] if operation == elements.TO_FLOAT32 and is_result else element
            given = self.partial(element, length, own_divisor) if is_partial else self.given(told, length)
        may_be_sent_packed = may_be_packed or operation == elements.TO_FLOAT32 and not is_result  # which is dropped
        if given != "none" and may_be_sent_packed and self.random.random() < 0.3:
            given = self.sparse(element, packed.blocks(length, first)) + f" packed={first}"
        wants = self.random.choice(("", "", "", " wants-none"))
        return (
            f"slot={slot} seq={seq} type={kind} op={operation} divisor={divisor} call={call:#x} elements={given}{wants}"
        )

    def given(self, element, length):
        some = [self.element(element) for _ in range(min(length, 9))]
        return ",".join(some[:-1] + [f"{some[-1]}*{length - len(some) + 1}"])

    def sparse(self, element, blocks):
        """Blocks of zeros, and others."""
        tokens = []
        for begin, end in blocks:
            has_some = self.random.random() < 0.4
            tokens.append(self.given(element, end - begin) if has_some else f"0x0*{end - begin}")
        return ",".join(tokens)

    def partial(self, element, length, divisor):
        """Terms, or the sums of some. A NaN is the quiet one."""
        sources = range(self.random.randint(1, 4))
        numbers = [[element.decode(int(self.element(element), 16)) for _ in range(length)] for _ in sources]
        bits = [[element.encode(number) for number in of_one] for of_one in numbers]
        if self.random.random() < 0.5:
            return f"hex:{partial.encode_terms(element, bits, divisor).hex()}"
        sums = [elements.reduce_floats("sum", 1, list(map(element.decode, column))) for column in zip(*bits)]
        return f"hex:{partial.encode_sums(element, sums, divisor).hex()}"

    def element(self, element):
        """The bits of one: often near 1, or what is special."""
        width = 8 * element.size
        bits = self.random.getrandbits(width)
        if element.floating and self.random.random() < 0.7:
            one = element.encode(elements.Number(False, Fraction(1)))
            near = one + self.random.randrange(-9, 9 << element.fraction)
            special = (0, 1, element.infinity, element.infinity - 1, element.infinity + 1, near, near, near, one)
            bits = self.random.choice(special) | bits >> (width - 1) << (width - 1)
        return f"{bits:#x}"

    def words(self):
        length = self.random.randint(1, 6)
        tokens = [str(self.random.choice((self.random.choice(EXTREMES), self.random.randrange(-(2**31), 2**31))))
                  for _ in range(length)]  # fmt: skip
        if self.full or self.random.random() < 0.5:
            tokens[-1] += f"*{self.random.randint(1, 58)}"
            return ",".join(tokens + [".."])
        return "none" if self.random.random() < 0.1 else ",".join(tokens)

    def open(self, same_job=""):
        name = f"S{len(self.sessions)}"
        workers = self.random.choice([w for w in (1, 2, 3, 4, 8, 31, 32, 33, 64, 128) if w <= self.workers])
        payload = self.random.choice([p for p in (256, 512, 1024, 1408, 2048) if p <= self.payload])
        exact = "exact " * (not self.full and self.random.random() < 0.4)
        job = self.sessions[same_job.removeprefix(" job=")].job if same_job else None
        members = self.open_as(name, f"{exact}{self.membership(workers)} slots=4 payload={payload}{same_job}", job)
        self.slots[name] = [Slot(self.random.choice(FIRST_SEQS), members) for _ in range(4)]

    def open_as(self, name, what, job=None):
        """Its members."""
        self.do(f"session {name} {what}")
        self.sessions[name] = self.model.open_session(self.parser.sessions[name], job)
        return self.parser.sessions[name].members

    def membership(self, workers):
        """A group of its own, or a part of a tree: any numbers, some of them switches, with or without a parent."""
        if self.random.random() < 0.6:
            return f"workers={workers}"
        members = sorted(self.random.sample(range(128), workers))
        children = [member for member in members if self.random.random() < 0.3]
        return (
            f"members={','.join(map(str, members))}"
            + (f" children={','.join(map(str, children))}" if children else "")
            + (f" uplink={members[0]}" if self.random.random() < 0.6 else "")
        )

    def do(self, statement):
        self.lines.append(statement)
        self.parser.statement(statement.split())

    def send(self, statement):
        required = dict(self.parser.required)
        self.do(statement)
        step = self.parser.steps[-1]
        packet = step.packet.encode(self.sessions)
        if self.model.switch.may_leave_out(step.sender, packet):  # unsaid
            self.lines.pop()
            self.parser.steps.pop()
            self.parser.required = required
            return
        self.made += 1
        answers = self.model.send(step.sender, packet)
        for to, frame in self.together(answers):
            self.lines.append(f"expect {to} {written(frame)}")

    def together(self, answers):
        """A result to all workers of a session as one line."""
        name = answers[0][0].split(".")[0] if answers else ""
        spec = self.parser.sessions.get(name)
        everybody = [spec.address(member) for member in spec.members] if spec else []
        if [to for to, _ in answers] == everybody and len({frame for _, frame in answers}) == 1:
            return [(f"{name}.*", answers[0][1])]
        return answers

    def count(self):
        self.made_at_count = self.made
        now = self.model.counters()
        moved = [f"{name} {value - self.counted[name]}" for name, value in now.items() if value != self.counted[name]]
        self.counted = now
        self.do("count " + " ".join(moved or ["contributions_added 0"]))


def written(frame):
    """A result, or a leaf's contribution, as the fields of an `expect`; its job and epoch are the receiver's."""
    packet = wire.decode(frame)
    if packet.kind in wire.EXACT_KINDS:
        return written_exact(packet)
    operation = next(name for name, value in wire.OPERATIONS.items() if value == packet.flags & 3)
    repeat = " repeat" if packet.flags & wire.REPEAT else ""
    return (f"slot={packet.slot} seq={packet.seq} op={operation} exponent={packet.exponent} "
            f"witness={packet.witness:#x} words={runs(map(str, packet.words))}{repeat}")  # fmt: skip


def runs(words):
    """`1,2*3`"""
    same = [(word, len(list(group))) for word, group in itertools.groupby(words)]
    return ",".join(f"{word}*{times}" if times > 1 else word for word, times in same) or "none"


def written_exact(packet):
    is_partial = elements.OPERATIONS[packet.operation] == "partial" and packet.data
    given = f"hex:{packet.data.hex()}" if is_partial else runs(map(hex, packet.words))
    known = {"disagree": wire.DISAGREE, "repeat": wire.REPEAT, "wants-none": wire.NO_ELEMENTS}
    marks = "".join(f" {name}" for name, flag in known.items() if packet.flags & flag)
    if packet.flags & wire.PACKED:
        marks += f" packed={packet.chunk.first}:{','.join(map(str, sorted(packet.chunk.present)))}"
    return (f"slot={packet.slot} seq={packet.seq} type={packet.type} op={packet.operation} divisor={packet.divisor} "
            f"call={packet.call:#x} elements={given}{marks}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="generate.py", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--packets", type=int, default=300)
    parser.add_argument("--workers", type=int, default=8, help="the most of a session (1 to 128)")
    parser.add_argument("--payload", type=int, default=1024, help="bytes, the largest of a session (256 or more)")
    parser.add_argument("--full", action="store_true", help="all chunks as long as the payload")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="default: standard output")
    arguments = parser.parse_args()
    if arguments.packets < 1 or not 1 <= arguments.workers <= 128 or arguments.payload < 256:
        parser.error("--packets: 1 or more; --workers: 1 to 128; --payload: 256 or more")
    options = (arguments.seed, arguments.packets, arguments.workers, arguments.payload, arguments.full)
    command = "--seed {} --packets {} --workers {} --payload {}".format(*options) + " --full" * arguments.full
    text = Generator(*options).text(command)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
