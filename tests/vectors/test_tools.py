"""The parser's errors, the runner's verdicts, what targets say when they fail."""

import dataclasses
import pathlib
import random
import struct
import subprocess
import sys

import pytest

from vectors import elements, parse, runner, targets, wire
from vectors.targets import softswitch as softswitch_module
from vectors.targets.model import ModelTarget

GOOD = """\
# Shows something.
session A workers=2
send A.0 slot=0 seq=1 words=1,..
send A.1 slot=0 seq=1 words=2,..
expect A.* slot=0 seq=1 words=3,..
count contributions_added 2 uses_started 1 uses_completed 1
"""

# A line that takes the place of one of GOOD's (or is put before it), and what the error must say.
BAD_LINES = [
    (1, "session A workers=2", "x.txt:1: the file must begin with a comment"),
    (2, "session a workers=2", "x.txt:2: session a: a new name that begins with a capital letter"),
    (2, "session A", "x.txt:2: session: one of workers=NUMBER and members=NUMBER,NUMBER,... is needed"),
    (2, "session A workers=129", "x.txt:2: workers=129: allowed are numbers from 1 to 128"),
    (
        2,
        "session A workers=2 payload=300",
        "x.txt:2: payload=300: allowed are 256, 512, multiples of 128 from 1024 to 2048, and of 1024",
    ),
    (2, "session A workers=2 slots=9 shards=2", "x.txt:2: slots=9: a multiple of shards=2"),
    (2, "session A workers=2 job=B", "x.txt:2: job=B: a session is needed that was closed above"),
    (2, "session A workers=2 payload=1024", "x.txt:2: the file must say: needs payload 1024"),
    (2, "session A workers=9", "x.txt:2: the file must say: needs workers 9"),
    (2, "session A members=0,1 uplink=0", "x.txt:2: the file must say: needs tree"),
    (2, "session A members=4,0", "x.txt:2: members=4,0: numbers must ascend"),
    (2, "session A members=0,200", "x.txt:2: members=200: allowed are numbers from 0 to 127"),
    (2, "session A workers=2 members=0,1", "x.txt:2: session: one of workers=NUMBER and members="),
    (2, "session A workers=2 children=2", "x.txt:2: children=2: allowed are members: 0, 1"),
    (3, "send A.parent slot=0 seq=1", "x.txt:3: A.parent: allowed only where the session has an uplink="),
    (2, "session A workers=2 shards=2", "x.txt:2: the file must say: needs shards"),
    (3, "send A.2 slot=0 seq=1", "x.txt:3: A.2: session A has members 0, 1, shards 0 to 0"),
    (3, "send B.0 slot=0 seq=1", "x.txt:3: 'B.0': allowed are stranger, A.WORKER"),
    (3, "send A.0 slot=0", "x.txt:3: seq=NUMBER is missing"),
    (3, "send A.0 slot=65536 seq=1", "x.txt:3: slot=65536: allowed are numbers from 0 to 65535"),
    (3, "send A.0 slot=0 seq=one", "x.txt:3: seq=one: allowed are numbers from 0 to 4294967295"),
    (3, "send A.0 slot=0 seq=1 slot=0", "x.txt:3: 'slot=0': allowed are, once each, slot="),
    (3, "send A.0 slot=0 seq=1 word=1", "x.txt:3: 'word=1': allowed are, once each, slot="),
    (3, "send A.0 slot=0 seq=1 words=2147483648,..", "x.txt:3: word '2147483648': allowed are -2147483648 to"),
    (3, "send A.0 slot=0 seq=1 words=1,x", "x.txt:3: word 'x': allowed"),
    (3, "send A.0 slot=0 seq=1 words=1", "x.txt:3: the file must say: needs short"),
    (3, "send A.0 slot=0 seq=1 op=min", "x.txt:3: op=min: allowed are numbers from 0 to 3"),
    (3, "send A.0 slot=0 seq=1 job=B", "x.txt:3: job=B: allowed are a number, a session's name"),
    (3, "send A.0 slot=0 seq=1 words=none cut=21", "x.txt:3: cut=21: the packet has 20 bytes"),
    (3, "send stranger slot=0 seq=1 job=unused epoch=A worker=0", "x.txt:3: words=..: the payload is known only"),
    (3, "raw from=A.0 hex 1", "x.txt:3: hex '1': allowed are pairs of hexadecimal digits"),
    (3, "raw from=A.0 hex {B.job}", "x.txt:3: {B.job}: allowed are A"),
    (3, "raw from=A.0 bytes 11", "x.txt:3: raw: write raw from=SENDER hex"),
    (3, "expect nothing", "x.txt:3: expect: it must follow a send"),
    (3, "close B", "x.txt:3: close B: allowed are A"),
    (3, "receive A.0", "x.txt:3: statement 'receive': allowed are needs, session"),
    (4, "send A.0-1 slot=0 seq=1", "x.txt:5: expect: after a send from several workers only"),
    (2, "session A exact workers=2", "x.txt:2: the file must say: needs exact"),
    (2, "session A not-exact members=0,2", "x.txt:2: not-exact: allowed only with workers=NUMBER"),
    (3, "send A.0 slot=0 seq=1 elements=none", "x.txt:3: the file must say: needs exact"),
    (3, "send A.0 slot=0 elements=none", "x.txt:3: seq=NUMBER is missing"),
    (3, "send A.0 slot=0 seq=1 words=1 elements=1", "x.txt:3: 'words=1': allowed are, once each, slot="),
    (3, "send A.0 slot=0 seq=1 elements=0.1", "x.txt:3: element '0.1': not a number of this type"),
    (3, "send A.0 slot=0 seq=1 type=int8 elements=128", "x.txt:3: element '128': not a number of this type"),
    (3, "send A.0 slot=0 seq=1 elements=0x100000000", "x.txt:3: element '0x100000000': more than 4 bytes"),
    (3, "send A.0 slot=0 seq=1 elements=one", "x.txt:3: element 'one': "),
    (3, "send A.0 slot=0 seq=1 type=float8 elements=1", "x.txt:3: type=float8: allowed are numbers from 0 to 15"),
    (3, "send A.0 slot=0 seq=1 elements=1 checksum=old", "x.txt:3: checksum=old: allowed are right and wrong"),
    (3, "send A.0 slot=0 seq=1 elements=1 key=B", "x.txt:3: key=B: allowed are A"),
    (3, "send A.0 slot=0 seq=1 elements=1 less=5", "x.txt:3: less=5 cut=0: there are 4 bytes of elements behind 24"),
    (6, "count packets 1", "x.txt:6: counter 'packets': allowed are, once each, contributions_added"),
    (6, "count dropped_stale", "x.txt:6: count: write count NAME NUMBER"),
    (6, "", "x.txt:6: the last statement must be a count"),
    (2, "needs speed", "x.txt:2: needs speed: allowed are payload BYTES"),
]


def changed(number, line):
    lines = GOOD.splitlines()
    lines[number - 1 : number] = [line] if not line.startswith("needs") else [line, lines[number - 1]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("number, line, message", BAD_LINES, ids=[line or "empty" for _, line, _ in BAD_LINES])
def test_a_mistake_in_a_file_is_named_with_its_line(number, line, message):
    with pytest.raises(parse.ParseError) as caught:
        parse.parse(changed(number, line), "x.txt")
    assert str(caught.value).startswith(message)


def test_a_need_that_nothing_has_is_a_mistake():
    with pytest.raises(parse.ParseError, match="needs payload 1024: nothing in the file does"):
        parse.parse(changed(2, "needs payload 1024"), "x.txt")


class Wrong(ModelTarget):
    """Answers as `change` makes of the right answers."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def send(self, sender, frame):
        return self.change(super().send(sender, frame))


def flip(frame, at):
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


EXACT = """\
# Shows something.
needs exact
session A exact workers=2
send A.0 slot=0 seq=1 elements=1,2
send A.1 slot=0 seq=1 elements=3,4
expect A.* slot=0 seq=1 elements=4,6
count contributions_added 2 uses_started 1 uses_completed 1
"""

WRONG_ANSWERS = {
    "one receiver left out": (lambda out: out[:-1], "missing: to A.1"),
    "one receiver twice": (lambda out: out + out[:1], "not expected: to A.0"),
    "to somebody else": (lambda out: [("stranger", frame) for _, frame in out], "not expected: to stranger"),
    "a word": (lambda out: [(to, flip(frame, 20 + 4 * 5 + 3)) for to, frame in out], "word 5: expected 0, got 1"),
    "a word too few": (lambda out: [(to, frame[:-4]) for to, frame in out], r"words\(63\)"),
    "part of a word": (lambda out: [(to, frame[:-1]) for to, frame in out], "not expected: to A.0: hex 52"),
    "an answer to an open use": (lambda out: out or [("A.0", b"")], "x.txt:3: .*line 3"),
    **{
        f"byte {at}": (lambda out, at=at: [(to, flip(frame, at)) for to, frame in out], "x.txt:5: ") for at in range(20)
    },
}


@pytest.mark.parametrize("change, message", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_a_wrong_answer_is_a_failure(change, message):
    with pytest.raises(runner.VectorFailure, match=message):
        runner.Runner(Wrong(change)).run(parse.parse(GOOD, "x.txt"))


@pytest.mark.parametrize("at", range(32))
def test_a_wrong_exact_answer_is_a_failure(at):
    with pytest.raises(runner.VectorFailure, match="x.txt:6: " if at < 24 else "x.txt:6: [^$]*word "):
        runner.Runner(Wrong(lambda out: [(to, flip(frame, at)) for to, frame in out])).run(parse.parse(EXACT, "x.txt"))


def test_a_exact_session_must_be_granted_where_it_has_to_be(softswitch):
    for sort, target in (("exact", "whole"), ("not-exact", "")):
        opened = parse.Parser(pathlib.Path("x.txt"))
        opened.session(["A", sort, "workers=2"])
        softswitch.driver.ask(f"reset {target}".strip())
        with pytest.raises(targets.TargetError, match="session A: (no )?exact session granted"):
            softswitch.open_session(opened.steps[0])
    softswitch.reset()


def test_the_checksum_is_what_the_protocol_says():
    """The same values as in tests/unit/wire/checksum_test.cc."""
    fields = {"job": 9, "epoch": 0x01020304, "worker": 7, "slot": 12, "seq": 5, "call": 0xDEADBEEF}
    packet = wire.ExactPacket(version=4, flags=wire.DISAGREE, **fields)
    for size, expected in ((0, 0x23718C70), (24, 0x18B2F57E), (1024, 0x098B9058)):
        sealed = dataclasses.replace(packet, data=bytes((i * 37 + 11) % 256 for i in range(size)), checksum=3)
        assert sealed.right_checksum(0x0123456789ABCDEF) == expected
        repeated = dataclasses.replace(sealed, flags=sealed.flags | wire.REPEAT)
        assert repeated.right_checksum(0x0123456789ABCDEF) == expected


def test_floats_are_rounded_as_the_processor_does():
    """float16, float32 and float64 against `struct`."""
    random_bits, codes = random.Random(1), {"float16": "<e", "float32": "<f"}
    wide = elements.FLOAT64
    for _ in range(20000):
        bits = random_bits.getrandbits(52) | random_bits.randrange(1023 - 200, 1023 + 200) << 52
        number, double = wide.decode(bits), struct.unpack("<d", bits.to_bytes(8, "little"))[0]
        assert wide.encode(number) == bits
        for name, code in codes.items():
            try:
                expected = int.from_bytes(struct.pack(code, double), "little")
            except OverflowError:
                expected = elements.TYPES[name].infinity
            assert elements.TYPES[name].encode(number) == expected, (name, hex(bits))


def test_a_counter_that_moves_otherwise_is_a_failure():
    for line in ("count contributions_added 2 uses_started 1", GOOD.splitlines()[-1] + " dropped_stale 1"):
        with pytest.raises(runner.VectorFailure, match="x.txt:6: since the last count: "):
            runner.Runner(ModelTarget()).run(parse.parse(changed(6, line), "x.txt"))


def test_a_counter_that_a_target_does_not_have_is_not_compared():
    target = ModelTarget()
    target.counters = lambda: {"contributions_added": target.switch.counters.get("contributions_added", 0)}
    runner.Runner(target).run(parse.parse(changed(6, "count contributions_added 2"), "x.txt"))
    with pytest.raises(runner.VectorFailure, match="contributions_added moved by 2, expected 1"):
        runner.Runner(target).run(parse.parse(changed(6, "count contributions_added 1"), "x.txt"))


def test_an_epoch_that_comes_again_is_a_failure():
    class SameEpoch(ModelTarget):
        def open_session(self, spec, job=None):
            return targets.Session(super().open_session(spec, job).job, epoch=7)

    text = "# x\nsession A workers=1\nclose A\nsession B workers=1 job=A\ncount dropped_stale 0\n"
    with pytest.raises(runner.VectorFailure, match="x.txt:4: session B got the epoch of A again"):
        runner.Runner(SameEpoch()).run(parse.parse(text, "x.txt"))


def test_what_a_target_lacks_is_said():
    small = targets.Capabilities(payload=256, workers=64)
    assert small.lacks({}) == ""
    assert small.lacks({"workers": 64}) == ""
    assert small.lacks({"payload": 1024, "short": True}) == "needs payload 1024 (has 256), short"


def test_layouts_are_checked():
    assert wire.HEADER.bytes == 20
    with pytest.raises(ValueError, match="slot=65536: allowed are 0 to 65535"):
        wire.HEADER.pack(slot=65536)
    with pytest.raises(ValueError, match="no field size"):
        wire.HEADER.pack(size=1)
    with pytest.raises(ValueError, match="21 bytes are not a header of 20 and whole words"):
        wire.Packet.decode(bytes(21))


def test_a_driver_that_is_missing_or_ends_is_an_error(tmp_path):
    with pytest.raises(targets.TargetError, match="nowhere: No such file or directory; build it with: ninja"):
        softswitch_module.SoftSwitchTarget(tmp_path / "nowhere")
    ends = softswitch_module.SoftSwitchTarget("/bin/false")
    with pytest.raises(targets.TargetError, match="ended with status 1"):
        ends.driver.ask("reset")
    with pytest.raises(targets.TargetError, match="ended with status 1"):
        ends.reset()  # starts it again first
    ends.close()


def test_the_driver_refuses_what_it_does_not_know(softswitch):
    for command, message in (
        ("fly", "command 'fly'"),
        ("frame A.0 1g", "frame '1g'"),
        ("frame " + "x" * 29, "endpoint 'xx"),
    ):
        with pytest.raises(targets.TargetError, match=message):
            softswitch.driver.ask(command)
    softswitch.reset()


def test_a_job_number_comes_again_when_it_is_asked_for(softswitch):
    softswitch.reset()
    vector = parse.parse("# x\nsession A workers=1\nsession B workers=1\nclose A\ncount dropped_stale 0\n", "x.txt")
    opens = [step for step in vector.steps if step.line in (2, 3)]
    first = softswitch.open_session(opens[0])
    other = softswitch.open_session(opens[1])
    softswitch.close_session("A")
    again = softswitch.open_session(opens[0], first.job)
    assert again.job == first.job != other.job
    assert again.epoch != first.epoch


@pytest.mark.parametrize("text, status, says", [
    (GOOD, 0, "model: 1 passed, 0 failed, 0 skipped"),
    (GOOD.replace("words=3", "words=4"), 1, "word 0: expected 4, got 3"),
    (GOOD.replace("# Shows", "needs control\n# Shows"), 1, "must begin with a comment"),
    (GOOD.replace("session", "needs control\nsession", 1), 0, "skip x: needs control"),
])  # fmt: skip
def test_the_command(tmp_path, text, status, says):
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(pathlib.Path(__file__).parent), str(path), "--target", "model"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status
    assert says in done.stdout


def test_the_command_without_its_driver(tmp_path):
    command = [sys.executable, str(pathlib.Path(__file__).parent), "--softswitch-target", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "nowhere: No such file" in done.stderr
