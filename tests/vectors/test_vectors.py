"""Every vector on every data plane that is asked for, and random sequences on the software switch."""

import pathlib

import pytest

from vectors import generate, parse, runner, targets, wire

FILES = sorted(pathlib.Path(__file__).resolve().parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_vector(path, target):
    vector = parse.load(path)
    reason = target.capabilities.lacks(vector.needs)
    if reason:
        pytest.skip(f"{target.name}: {reason}")
    runner.Runner(target).run(vector)


# Small and large sessions, chunks of any length and of the payload's; the name of a failing test is what repeats it.
RANDOM = [(seed, 300, (2, 8, 33, 128)[seed % 4], (256, 1024, 2048)[seed % 3], seed % 5 == 0) for seed in range(1, 31)]
FIRST = 6  # seeds, which have every size of each kind


@pytest.mark.parametrize(
    "options",
    [pytest.param(o, marks=[pytest.mark.slow] * (o[0] > FIRST)) for o in RANDOM],
    ids=lambda o: f"seed{o[0]}-packets{o[1]}-workers{o[2]}-payload{o[3]}-full{o[4]:d}",
)
def test_random_sequence(options, softswitches, tmp_path):
    path = tmp_path / "random.txt"
    path.write_text(generate.Generator(*options).text("repeat it with generate.py"), encoding="utf-8")
    for whole in (False, True) if options[4] else (False,):
        runner.Runner(softswitches[whole]).run(parse.load(path))


WHOLE = "exponent=7 witness=7 words=7*64"
# (session, sender, what is cut, what comes after it in the same place)
CUT = {
    "contribution": ("workers=2", "A.0", WHOLE, WHOLE),
    "result": ("members=0,1 uplink=5", "A.parent", WHOLE + " kind=2 worker=255", WHOLE),
    "exact_contribution": ("exact workers=2", "A.0", "elements=7*64", "elements=7*64"),
    "exact_result": ("exact members=0,1 uplink=5", "A.parent", "elements=7*64 kind=6 worker=255", "elements=7*64"),
}


@pytest.mark.parametrize("kind", CUT)
def test_a_packet_may_be_cut_at_any_byte(kind, target, tmp_path):  # [DROP-1, DROP-4, DROP-11]
    session, sender, spoiled, right = CUT[kind]
    made = generate.Generator(0, 0, full=not target.capabilities.short)
    made.open_as("A", session)
    packet = bytes(4 * 64 + (wire.EXACT if "exact" in kind else wire.HEADER).bytes)
    for cut in made.cuts(packet):
        made.send(f"send {sender} slot=0 seq=9 {spoiled} cut={cut}")
    made.count()
    for worker in (0, 1):
        made.send(f"send A.{worker} slot=0 seq=11 {right}")
    made.count()
    path = tmp_path / f"cut_{kind}.txt"
    path.write_text(made.written(["# Cut at every byte."]), encoding="utf-8")
    vector = parse.load(path)
    reason = target.capabilities.lacks(vector.needs)
    if reason:
        pytest.skip(f"{target.name}: {reason}")
    runner.Runner(target).run(vector)


REQUESTS = {"open": {"client_key": 7, "workers": 1, "shards": 1, "payload": 256}, "join": {}, "close": {}, "probe": {}}


@pytest.mark.parametrize("request_type", REQUESTS)
def test_a_control_request_may_be_cut_or_damaged_at_any_byte(request_type, target, tmp_path):  # [CTL-4, CTL-8]
    if not target.capabilities.control:
        pytest.skip(f"{target.name}: needs control")
    start = {"version": wire.VERSION, "kind": wire.KINDS["request"], "type": wire.PROTOCOL["requests"][request_type]}
    message = wire.CONTROL.pack(**start) + wire.Layout(request_type).pack(**REQUESTS[request_type])
    frame = wire.checked(message)
    lines = ["# Cut at every byte, with and without a right checksum; a bit of every byte changed.", "needs control",
             "session A workers=1"]  # fmt: skip
    for size in range(1, len(frame)):
        lines += [f"raw from=A.0 hex {frame[:size].hex()}", "expect nothing"]
    for size in range(wire.CONTROL.bytes, len(message)):
        lines += [f"raw from=A.0 hex {message[:size].hex()} check", "expect nothing"]
    lines.append(f"raw from=A.0 hex {wire.VERSION ^ 8:x}{frame.hex()[1:]}")
    lines.append(f"expect A.0 hex {wire.VERSION:x}4 {start['type']:02x} 0001 00000000")
    for at in range(1, len(frame)):
        damaged = frame[:at] + bytes([frame[at] ^ 1 << at % 8]) + frame[at + 1 :]
        lines += [f"raw from=A.0 hex {damaged.hex()}", "expect nothing"]
    lines += ["count contributions_added 0", "send A.0 slot=0 seq=1", "expect A.0 slot=0 seq=1"]
    lines.append("count contributions_added 1 uses_started 1 uses_completed 1")
    runner.Runner(target).run(parse.parse("\n".join(lines), tmp_path / "request.txt"))


def test_the_same_seed_gives_the_same_sequence():
    texts = [generate.Generator(seed, 100).text("") for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_random_sequences_reach_every_counter():
    counted = set()
    for options in RANDOM:
        for line in generate.Generator(*options).text("").splitlines():
            if line.startswith("count "):
                counted.update(line.split()[1::2])
    assert counted == set(targets.COUNTERS)
