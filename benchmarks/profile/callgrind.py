"""Reads what callgrind writes (the format is in valgrind's manual) and gives the cost of each function to a stage."""

import collections
import dataclasses
import re

SPECIFICATION = re.compile(r"(ob|fl|fi|fe|fn|cob|cfi|cfl|cfn)=(.*)")
COMPRESSED = re.compile(r"\((\d+)\)(?: (.*))?")
KINDS = {"ob": "object", "cob": "object", "fn": "function", "cfn": "function"}  # all others are files
ROUNDS = 200  # of handing costs up to callers; recursion would never end
OTHER = "other"


class FormatError(ValueError):
    """Not a file of callgrind's."""


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    object: str  # the program or library


class Profile:
    """events: names in the order of the costs. own: {Function: costs of its own instructions}. calls: {callee: {caller:
    costs of the callee and all below it, for this caller}}. files: {Function: the file that defines it}; those of code
    that is inlined do not count."""

    def __init__(self, events):
        self.events, self.files = events, {}
        self.own = collections.defaultdict(self.zero)
        self.calls = collections.defaultdict(lambda: collections.defaultdict(self.zero))

    def zero(self):
        return [0.0] * len(self.events)

    def total(self):
        return sums(self.own.values(), self.zero())


def sums(costs, total):
    for cost in costs:
        add(total, cost)
    return total


def add(total, cost, factor=1.0):
    for i, value in enumerate(cost):
        total[i] += factor * value


class Reader:
    def __init__(self):
        self.names = {"object": {}, "file": {}, "function": {}}
        self.at = dict.fromkeys(("ob", "fl", "fn", "cob", "cfn"))
        self.profile, self.called = None, None

    def name(self, kind, text):
        """Names are written once and referred to by number."""
        found = COMPRESSED.fullmatch(text)
        if not found:
            return text
        if found[2] is not None:
            self.names[kind][found[1]] = found[2]
        if found[1] not in self.names[kind]:
            raise FormatError(f"{kind} ({found[1]}) has no name")
        return self.names[kind][found[1]]

    def specify(self, key, text):
        value = self.name(KINDS.get(key, "file"), text)
        if key not in self.at:
            return  # files of inlined code, which counts for the function that it is part of, and of callees
        self.at[key] = value
        if key == "fn":
            self.function = Function(value, self.at["ob"])
            self.profile.files.setdefault(self.function, self.at["fl"] or "")

    def line(self, line):
        specification = SPECIFICATION.fullmatch(line)
        if specification:
            self.specify(*specification.groups())
        elif line.startswith("events:"):
            self.profile = Profile(line.split()[1:])
        elif line.startswith("calls="):
            self.called = Function(
                self.at["cfn"], self.at["cob"] or self.at["ob"]
            )  # of the caller's object, unless it says otherwise
            self.at["cob"] = None
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            self.cost([float(value) for value in line.split()[1:]])

    def cost(self, values):
        if self.profile is None:
            raise FormatError("costs before their events")
        if self.called is not None:
            add(self.profile.calls[self.called][self.function], values)
            self.called = None
        else:
            add(self.profile.own[self.function], values)


def read(text):
    reader = Reader()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            reader.line(line.strip())
        except (FormatError, ValueError, AttributeError, IndexError) as error:
            raise FormatError(f"line {number}, {line[:80]!r}: {error}") from error
    if reader.profile is None:
        raise FormatError("no line of events")
    return reader.profile


def attribute(profile, stage_of):
    """{stage: costs}. stage_of(name, file) is a stage, or None for what serves many (memcpy, malloc): its cost goes to
    those that call it, in proportion to what they called it for. What nobody takes is OTHER's."""
    stages = collections.defaultdict(profile.zero)
    left = {}
    stage_by = {None: OTHER, **{function: stage_of(function.name, file) for function, file in profile.files.items()}}
    for function, cost in profile.own.items():
        stage = stage_by[function]
        add(stages[stage] if stage else left.setdefault(function, profile.zero()), cost)
    for _ in range(ROUNDS):
        if not left:
            break
        handed, left = left, {}
        for function, cost in handed.items():
            for caller, share in shares(profile, function):
                stage = stage_by[caller]
                target = stages[stage] if stage else left.setdefault(caller, profile.zero())
                for i, value in enumerate(cost):
                    target[i] += value * share[i]
    for cost in left.values():
        add(stages[OTHER], cost)
    return dict(stages)


def shares(profile, function):
    """[(caller, its part of each event)]; the caller is None where there is none."""
    callers = profile.calls.get(function)
    if not callers:
        return [(None, [1.0] * len(profile.events))]
    whole = sums(callers.values(), profile.zero())
    # An event that no call had is shared like the first one, which is instructions.
    return [
        (
            caller,
            [
                cost[i] / whole[i] if whole[i] else cost[0] / whole[0] if whole[0] else 1 / len(callers)
                for i in range(len(whole))
            ],
        )
        for caller, cost in callers.items()
    ]
