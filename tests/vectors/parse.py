"""Reads vector files. README.md describes the language; every error names file, line, the value, what is
allowed."""

import pathlib
import re
from fractions import Fraction

from vectors import elements, packed, partial, vector, wire
from vectors.targets import COUNTERS
from vectors.vector import Close, Count, Expect, Fields, Hex, ExactFields, Of, Open, Send, UnusedJob, Vector

NEEDS = {"payload": int, "workers": int, "short": None, "whole": None, "control": None, "shards": None, "tree": None,
         "exact": None}  # fmt: skip
NAME = re.compile(r"[A-Z][A-Za-z0-9]*$")
MEMBER = re.compile(r"(?P<session>[A-Z][A-Za-z0-9]*)\.(?P<who>\*|parent|\d+(-\d+)?)(/(?P<shard>\d+))?$")
SYMBOL = re.compile(r"(?P<session>[A-Z][A-Za-z0-9]*)(\+(?P<plus>\w+))?$")
PLACEHOLDER = re.compile(r"\{(?P<session>[A-Z][A-Za-z0-9]*)\.(?P<field>job|epoch)\}")
LIMITS = {"slot": 0xFFFF, "exponent": 0xFFFF, "seq": 0xFFFFFFFF, "witness": 0xFFFFFFFF, "version": 15, "kind": 15,
          "flags": 255, "worker": 255, "op": 3, "job": 255, "epoch": 0xFFFFFFFF, "cut": 0xFFFF}  # fmt: skip
EXACT_LIMITS = {"slot": 0xFFFF, "seq": 0xFFFFFFFF, "type": 15, "op": 15, "divisor": 255, "call": 0xFFFFFFFF,
                 "flags": 255, "version": 15, "kind": 15, "worker": 255, "job": 255, "epoch": 0xFFFFFFFF, "cut": 0xFFFF,
                 "less": 7}  # fmt: skip


class ParseError(Exception):
    """The file is no vector; the text begins with FILE:LINE."""


def load(path):
    """A Vector; OSError if the file cannot be read."""
    path = pathlib.Path(path)
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text, path):
    return Parser(pathlib.Path(path)).parse(text)


class Parser:
    def __init__(self, path):
        self.path = path
        self.line = 0
        self.sessions = {}  # name: Open
        self.live = set()
        self.needs = {}  # as the file says
        self.required = {}  # need: (value, line of the first statement that has it)
        self.steps = []
        self.answering = []  # the Sends that the next `expect` belongs to

    def fail(self, text):
        raise ParseError(f"{self.path}:{self.line}: {text}")

    def parse(self, text):
        lines = text.splitlines()
        purpose = self.purpose(lines)
        for self.line, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if words:
                self.statement(words)
        self.check_end()
        return Vector(self.path, purpose, self.needs, self.steps)

    def purpose(self, lines):
        comment = []
        while len(comment) < len(lines) and lines[len(comment)].startswith("#"):
            comment.append(lines[len(comment)].lstrip("# "))
        self.line = 1
        if not "".join(comment):
            self.fail("the file must begin with a comment that says what it shows")
        return " ".join(comment)

    def statement(self, words):
        statements = {"needs": self.need, "session": self.session, "close": self.close, "send": self.send,
                      "raw": self.raw, "expect": self.expect, "count": self.count}  # fmt: skip
        if words[0] not in statements:
            self.fail(f"statement {words[0]!r}: allowed are {', '.join(statements)}")
        if words[0] != "expect":
            self.answering = []
        statements[words[0]](words[1:])

    def check_end(self):
        if not self.steps or not isinstance(self.steps[-1], Count):
            self.fail("the last statement must be a count, so that every packet is accounted for")
        for what, (value, line) in self.required.items():
            if self.needs.get(what, 0) < value and not (what == "short" and "whole" in self.needs):
                self.line = line
                self.fail(f"the file must say: needs {what}" + ("" if value is True else f" {value}"))
        if "whole" in self.needs:
            return  # shorter chunks are what such a file is about
        for what, value in self.needs.items():
            if what != "control" and self.required.get(what, (0,))[0] != value:
                self.fail(f"needs {what} {value}: nothing in the file does")

    def require(self, what, value, base=0):
        if value > base and value > self.required.get(what, (0,))[0]:
            self.required[what] = (value, self.line)

    # ---- statements ----

    def need(self, words):
        if not words or words[0] not in NEEDS or len(words) != (2 if NEEDS[words[0]] else 1):
            allowed = "payload BYTES, workers NUMBER, short, whole, control, shards, tree, exact"
            self.fail(f"needs {' '.join(words)}: allowed are {allowed}")
        self.needs[words[0]] = self.number(words[1], "needs", 0xFFFF) if NEEDS[words[0]] else True

    def session(self, words):
        if not words or not NAME.match(words[0]) or words[0] in self.sessions:
            self.fail(f"session {' '.join(words[:1])}: a new name that begins with a capital letter is needed")
        given, same_job_as = {"slots": 8, "payload": 256, "shards": 1}, ""
        limits = {"workers": (1, 128), "slots": (4, 4096), "payload": (256, 64512), "shards": (1, 16)}
        lists = {"members": (), "children": ()}
        asks = {word for word in words[1:] if word in ("exact", "not-exact")}
        pairs = [word for word in words[1:] if word not in asks]
        for key, value in self.pairs(pairs, [*limits, "job", "uplink", *lists]):
            if key in lists:
                lists[key] = self.numbers(value, key)
            elif key == "uplink":
                given[key] = self.number(value, key, 127)
            elif key == "job":
                same_job_as = value
                if value not in self.sessions or value in self.live:
                    self.fail(f"job={value}: a session is needed that was closed above")
            else:
                given[key] = self.number(value, key, limits[key][1], limits[key][0])
        members = lists["members"] or tuple(range(given.get("workers", 0)))
        self.check_session(given, lists, members)
        opened = Open(self.line, words[0], members, given["slots"], given["payload"], given["shards"], same_job_as,
                      given.get("uplink"), lists["children"], bool(asks), "exact" in asks)  # fmt: skip
        if "not-exact" in asks and opened.part_of_tree:
            self.fail("not-exact: allowed only with workers=NUMBER")
        self.sessions[opened.name] = opened
        self.live.add(opened.name)
        self.steps.append(opened)
        self.require("payload", opened.payload, vector.BASE_PAYLOAD)
        self.require("workers", len(members), vector.BASE_WORKERS)
        self.require("tree", opened.part_of_tree)
        self.require("shards", opened.shards > 1)
        self.require("exact", opened.exact)

    def check_session(self, given, lists, members):
        if ("workers" in given) == bool(lists["members"]):
            self.fail("session: one of workers=NUMBER and members=NUMBER,NUMBER,... is needed")
        if not set(lists["children"]) <= set(members):
            self.fail(
                f"children={','.join(map(str, lists['children']))}: allowed are members: {', '.join(map(str, members))}"
            )
        step = 1024 if given["payload"] > 2048 else 128
        if given["payload"] not in (256, 512) and (given["payload"] < 1024 or given["payload"] % step):
            self.fail(
                f"payload={given['payload']}: allowed are 256, 512, multiples of 128 from 1024 to 2048, and of 1024"
            )
        if given["slots"] % given["shards"]:
            self.fail(f"slots={given['slots']}: a multiple of shards={given['shards']} is needed")

    def close(self, words):
        if len(words) != 1 or words[0] not in self.live:
            self.fail(f"close {' '.join(words)}: allowed are {', '.join(sorted(self.live)) or 'no sessions'}")
        self.live.remove(words[0])
        self.steps.append(Close(self.line, words[0]))

    def send(self, words):
        if not words:
            self.fail("send: the sender is missing")
        for sender, name, worker in self.members(words[0], stranger=True):
            if name and sender == self.sessions[name].parent and not any(word.startswith("kind=") for word in words):
                self.add_send(sender, self.result(words[1:], name))
            else:
                self.add_send(sender, self.contribution(words[1:], name, worker))

    def raw(self, words):
        if len(words) < 2 or not words[0].startswith("from=") or words[1] != "hex":
            self.fail("raw: write raw from=SENDER hex BYTES...")
        packet = self.hex(words[2:])
        for sender, name, _ in self.members(words[0][len("from=") :], stranger=True):
            self.add_send(sender, packet)
            if name and packet.begins_with_kind(wire.KINDS["contribution"]):
                words_bytes = packet.size - wire.HEADER.bytes
                self.require("short", 0 < words_bytes < self.sessions[name].payload and words_bytes % 4 == 0)

    def add_send(self, sender, packet):
        self.answering.append(Send(self.line, sender, packet))
        self.steps.append(self.answering[-1])

    def expect(self, words):
        if not self.answering or not isinstance(self.steps[-1], Send):
            self.fail("expect: it must follow a send, a raw or another expect")
        if words == ["nothing"]:
            if self.answering[-1].expects:
                self.fail("expect nothing: something is expected above")
            return
        if len(self.answering) > 1:
            self.fail("expect: after a send from several workers only `expect nothing` is allowed")
        if not words:
            self.fail("expect: the receiver is missing")
        members = self.members(words[0], stranger=True)
        _, name, worker = members[0]
        if words[1:2] == ["hex"]:
            packet = self.hex(words[2:])
        elif name and members[0][0] == self.sessions[name].parent:
            packet = self.contribution(words[1:], name, worker)
        else:
            packet = self.result(words[1:], members[0][1])
        self.answering[-1].expects.append(Expect(self.line, tuple(to for to, _, _ in members), packet))

    def count(self, words):
        changes = {}
        for name, number in zip(words[::2], words[1::2]):
            if name not in COUNTERS or name in changes:
                self.fail(f"counter {name!r}: allowed are, once each, {', '.join(COUNTERS)}")
            changes[name] = self.number(number, name, 0xFFFFFFFF)
        if len(words) % 2 or not words:
            self.fail("count: write count NAME NUMBER, any number of times")
        if self.steps and isinstance(self.steps[-1], Count):
            again = changes.keys() & self.steps[-1].changes.keys()  # lines in a row are one count
            if again:
                self.fail(f"counter {', '.join(sorted(again))}: counted in the line above already")
            self.steps[-1].changes.update(changes)
        else:
            self.steps.append(Count(self.line, changes))

    # ---- what statements are made of ----

    def pairs(self, words, allowed):
        seen = set()
        for word in words:
            key, equals, value = word.partition("=")
            if key not in allowed or key in seen or not equals:
                self.fail(f"{word!r}: allowed are, once each, {', '.join(name + '=' for name in allowed)}")
            seen.add(key)
            yield key, value

    def number(self, text, name, most, least=0):
        try:
            value = int(text, 0)
        except ValueError:
            value = -1
        if not least <= value <= most:
            self.fail(f"{name}={text}: allowed are numbers from {least} to {most}")
        return value

    def numbers(self, text, name):
        """`0,4,5`: worker numbers, ascending."""
        out = tuple(self.number(number, name, 127) for number in text.split(","))
        if list(out) != sorted(set(out)):
            self.fail(f"{name}={text}: numbers must ascend")
        return out

    def members(self, text, stranger=False):
        """[(endpoint, session name, worker)] of A.0, A.0-5, A.* or, with a shard, A.0/1; A.parent is the uplink's
        worker; the stranger is ("", 0)."""
        if text == vector.STRANGER and stranger:
            return [(text, "", 0)]
        match = MEMBER.match(text)
        if not match or match["session"] not in self.sessions:
            names = ", ".join(f"{name}.WORKER" for name in self.sessions)
            self.fail(f"{text!r}: allowed are {vector.STRANGER}, {names or 'no sessions'} (WORKER: a number, N-M or *)")
        session, shard = self.sessions[match["session"]], int(match["shard"] or 0)
        if match["who"] == "parent":
            if session.uplink is None or match["shard"]:
                self.fail(f"{text}: allowed only where the session has an uplink=, without a shard")
            return [(session.parent, session.name, session.uplink)]
        first, _, last = (
            f"0-{session.workers - 1}".partition("-") if match["who"] == "*" else match["who"].partition("-")
        )
        chosen = [w for w in session.members if int(first) <= w <= int(last or first)]
        if (
            not chosen
            or chosen[0] != int(first)
            and match["who"] != "*"
            or int(last or first) > chosen[-1]
            or shard >= session.shards
        ):
            members = ", ".join(map(str, session.members))
            self.fail(f"{text}: session {session.name} has members {members}, shards 0 to {session.shards - 1}")
        return [(session.address(w, shard), session.name, w) for w in chosen]

    def contribution(self, words, session, worker):
        exact = is_exact(words)
        known = {"repeat": wire.REPEAT}
        if exact:
            known |= {"wants-none": wire.NO_ELEMENTS, "disagree": wire.DISAGREE}
        marks, words = self.marks(words, known)
        allowed = (
            [*EXACT_LIMITS, "elements", "packed", "terms", "by", "checksum", "key"] if exact else [*LIMITS, "words"]
        )
        values = dict(self.pairs(words, allowed))
        values.setdefault("worker", str(worker))
        values.setdefault("kind", str(wire.KINDS["exact_contribution" if exact else "contribution"]))
        return self.marked(self.exact_fields(values, session) if exact else self.fields(values, session), marks)

    def result(self, words, session):
        exact = is_exact(words)
        marks, words = self.marks(words, {"disagree": wire.DISAGREE} if exact else {})
        others = ["type", "divisor", "call", "elements", "packed"] if exact else ["exponent", "witness", "words"]
        values = dict(self.pairs(words, ["slot", "seq", "op", *others]))
        values["kind"] = str(wire.KINDS["exact_result" if exact else "result"])
        values["worker"] = str(wire.ALL_WORKERS)
        return self.marked(self.exact_fields(values, session) if exact else self.fields(values, session), marks)

    def marks(self, words, known):
        """The flags of the words that are names of some, and the other words."""
        return sum(known[word] for word in set(words) & set(known)), [word for word in words if word not in known]

    def marked(self, fields, marks):
        fields.values["flags"] = fields.values.get("flags", 0) | marks
        return fields

    def exact_fields(self, values, session):
        self.require("exact", True)
        for name in ("slot", "seq"):
            if name not in values:
                self.fail(f"{name}=NUMBER is missing")
        job = self.symbol(values.pop("job", session), "job")
        epoch = self.symbol(values.pop("epoch", session), "epoch")
        key = values.pop("key", session or (job.session if isinstance(job, Of) else ""))
        if key and key not in self.sessions:
            self.fail(f"key={key}: allowed are {', '.join(self.sessions)}")
        checksum = values.pop("checksum", "right")
        if checksum not in ("right", "wrong"):
            self.fail(f"checksum={checksum}: allowed are right and wrong")
        given, cut_into, terms = values.pop("elements"), values.pop("packed", ""), values.pop("terms", None)
        by = values.pop("by", "0")
        values["type"] = number_of(values.get("type", "float32"), elements.NAMES)
        values["operation"] = number_of(values.pop("op", "sum"), elements.OPERATIONS)
        limits = EXACT_LIMITS | {"operation": 15}
        numbers = {name: self.number(value, name, limits[name]) for name, value in values.items()}
        is_float32 = numbers["kind"] == wire.KINDS["exact_result"] and (
            numbers["operation"] == elements.OPERATIONS.index(elements.TO_FLOAT32)
        )
        kind = elements.NAMES.index("float32") if is_float32 else numbers["type"]
        if terms is None:
            data = self.elements(given, kind)
        else:
            divisor = self.number(by, "by", 0xFFFF)
            data = self.partial(given, kind, self.number(terms, "terms", partial.MOST_TERMS), divisor)
        if cut_into:
            data = self.packed(cut_into, data, numbers["type"])
            numbers["flags"] = numbers.get("flags", 0) | wire.PACKED
        less, cut = numbers.pop("less", 0), numbers.pop("cut", 0)
        if max(less - len(data), cut - len(data) - wire.EXACT.bytes) > 0:
            self.fail(f"less={less} cut={cut}: there are {len(data)} bytes of elements behind {wire.EXACT.bytes}")
        numbers |= {"job": job, "epoch": epoch, "data": data[: len(data) - less]}
        return ExactFields(numbers, key, checksum == "wrong", cut)

    def packed(self, text, data, number):
        """`FIRST`, the elements of the first block, or `FIRST:0,2`, the blocks that travel; else those that are not
        zero."""
        size = elements.TYPES[elements.NAMES[number]].size
        first, colon, listed = text.partition(":")
        first = self.number(first, "packed", packed.BLOCK, 1)
        count = len(packed.blocks(len(data) // size, first))
        if first > len(data) // size:
            self.fail(f"packed={first}: there are {len(data) // size} elements")
        present = packed.nonzero(data, size, first)
        if colon:
            present = frozenset(self.number(one, "packed", count - 1) for one in listed.split(",") if one)
        return packed.pack(packed.Chunk(data, first, present), size)

    def elements(self, text, number):
        """`1.5,-0x1p-3,nan,0x7fc00001,2*3`: numbers of the type, or the bits of one (0x without p). `127:1:2`: a block
        with this scale."""
        if text == "none":
            return b""
        if text.startswith("hex:"):
            return self.digits(text.removeprefix("hex:"))
        kind = elements.TYPES[elements.NAMES[number]] if number < len(elements.NAMES) else elements.TYPES["float32"]
        return elements.join([self.element(value, kind) for value in self.each(text)], kind.size)

    def each(self, text):
        """`1,2*3`: 1, 2, 2, 2."""
        out = []
        for token in text.split(","):
            value, _, times = token.partition("*")
            out += [value] * self.number(times or "1", "elements", 65536, 1)
        return out

    def partial(self, text, number, terms, divisor):
        """A contribution to a partial sum: `terms` times all elements; with 0, sums as in `1.5+0x1p-100`."""
        kind, tokens = elements.TYPES[elements.NAMES[number]], self.each(text)
        if terms == 0:
            return partial.encode_sums(kind, [sum_of(token) for token in tokens], divisor)
        bits = [self.element(token, kind) for token in tokens]
        count = len(bits) // terms
        return partial.encode_terms(kind, [bits[t * count : (t + 1) * count] for t in range(terms)], divisor)

    def element(self, text, kind):
        try:
            if text.startswith("0x") and "p" not in text:
                value = int(text, 16)
                if value >= 1 << 8 * kind.size:
                    raise ValueError(f"more than {kind.size} bytes")
                return value
            if isinstance(kind, elements.Scaled):
                scale, *numbers = text.split(":")
                return kind.pack(int(scale), [self.element(number, kind.inner) for number in numbers])
            return kind.exact(float_of(text) if kind.floating else int(text))
        except ValueError as error:
            self.fail(f"element {text!r}: {error}")

    def fields(self, values, session):
        for name in ("slot", "seq"):
            if name not in values:
                self.fail(f"{name}=NUMBER is missing")
        job = self.symbol(values.pop("job", session), "job")
        epoch = self.symbol(values.pop("epoch", session), "epoch")
        owner = session or (job.session if isinstance(job, Of) else "")
        words = self.words(values.pop("words", ".."), self.sessions.get(owner))
        operation = wire.OPERATIONS.get(values.get("op"), values.get("op", "0"))
        flags = self.number(str(operation), "op", LIMITS["op"])
        values.pop("op", None)
        numbers = {name: self.number(value, name, LIMITS[name]) for name, value in values.items()}
        cut = numbers.pop("cut", 0)
        numbers["flags"] = numbers.get("flags", 0) | flags
        if owner:
            left = len(words) * wire.WORD_BYTES - cut
            self.require("short", 0 < left < self.sessions[owner].payload and left % wire.WORD_BYTES == 0)
        if cut > wire.HEADER.bytes + len(words) * wire.WORD_BYTES:
            self.fail(f"cut={cut}: the packet has {wire.HEADER.bytes + len(words) * wire.WORD_BYTES} bytes")
        return Fields({**numbers, "job": job, "epoch": epoch, "words": words}, cut)

    def symbol(self, text, field):
        """A session's job or epoch, from its name."""
        if field == "job" and text == "unused":
            return UnusedJob()
        if text[:1].isdigit():
            return self.number(text, field, LIMITS[field])
        match = SYMBOL.match(text)
        if not match or match["session"] not in self.sessions:
            unused = ", unused" if field == "job" else ""
            self.fail(f"{field}={text}: allowed are a number, a session's name, NAME+NUMBER{unused}")
        return Of(match["session"], field, self.number(match["plus"] or "0", field, 0xFFFFFFFF))

    def words(self, text, session):
        """`1,-2,0x7fffffff,7*3,..`: N*M is M times N; `..` at the end fills with 0 up to the payload."""
        if text == "none":
            return ()
        tokens, out = text.split(","), []
        fill = tokens[-1] == ".."
        for token in tokens[: len(tokens) - fill]:
            value, _, times = token.partition("*")
            out += [self.word(value)] * self.number(times or "1", "words", 16384, 1)
        if fill:
            if session is None:
                self.fail("words=..: the payload is known only with a session: write its name in job=")
            out += [0] * (session.payload // wire.WORD_BYTES - len(out))
        return tuple(out)

    def word(self, text):
        try:
            value = int(text, 0)
        except ValueError:
            value = 2**32
        most = 2**32 if text.startswith("0x") else 2**31
        if not -(2**31) <= value < most:
            self.fail(f"word {text!r}: allowed are -2147483648 to 2147483647 and 0x0 to 0xffffffff")
        return wire.wrap(value)

    def hex(self, words):
        """Digits, spaced as one likes; XX*N: the byte XX, N times; `check` at the end: a control message's checksum."""
        check = words[-1:] == ["check"]
        words = words[: len(words) - check]
        text, parts, at = "".join(self.repeated(word) for word in words), [], 0
        for match in PLACEHOLDER.finditer(text):
            if match["session"] not in self.sessions:
                self.fail(f"{match.group()}: allowed are {', '.join(self.sessions) or 'no sessions'}")
            parts += [self.digits(text[at : match.start()]), Of(match["session"], match["field"])]
            at = match.end()
        return Hex((*parts, self.digits(text[at:])), check)

    def repeated(self, word):
        byte, star, times = word.partition("*")
        if star and len(byte) != 2:
            self.fail(f"{word!r}: allowed before * are two hexadecimal digits")
        return byte * self.number(times, "hex", 65535, 1) if star else word

    def digits(self, text):
        try:
            return bytes.fromhex(text)
        except ValueError:
            self.fail(f"hex {text!r}: allowed are pairs of hexadecimal digits, {{NAME.job}} and {{NAME.epoch}}")


def is_exact(words):
    return any(word.startswith("elements=") for word in words)


def sum_of(text):
    """The exact sum of numbers with a plus between them."""
    return elements.reduce_floats("sum", 1, [float_of(term) for term in text.split("+")])


def number_of(text, names):
    return str(names.index(text)) if text in names else text


def float_of(text):
    """A Number, exactly what is written."""
    sign, magnitude = text.startswith("-"), text.removeprefix("-")
    if magnitude == "nan":
        return elements.NAN
    if magnitude == "inf":
        return elements.Number(sign, elements.INFINITY)
    if magnitude.startswith("0x"):
        digits, _, exponent = magnitude[2:].partition("p")
        whole, _, fraction = digits.partition(".")
        significand = Fraction(int(whole + fraction, 16), 16 ** len(fraction))
        return elements.Number(sign, significand * Fraction(2) ** int(exponent))
    return elements.Number(sign, Fraction(magnitude))
