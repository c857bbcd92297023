"""The program with other constants than it is shipped with: payloads of 1024 bytes, and pages so small that a few slots
can be several shards. Also random sequences, which the shipped one has to get right as well. All with workers that send
datagrams, and with workers that have queue pairs."""

import random

import pytest

from vectors import generate, parse, runner, troubled, wire
from vectors.targets import bmv2_switch

pytestmark = pytest.mark.skipif(bool(bmv2_switch.missing()), reason=bmv2_switch.missing())

VECTORS = sorted((wire.ROOT / "tests/vectors").glob("*.txt"))
# These say what all 64 words are, or send 65 or their bytes: other chunks where 256 are whole.
ABOUT_64_WORDS = {
    "control_probe", "dropped_leaves_no_trace", "every_word", "layout", "max_signed", "new_overwrites",
    "new_without_words", "too_many_words", "too_many_words_larger", "tree_result_from_parent_only", "unknown_job",
    "whole_chunks", "zero_words",
}  # fmt: skip


CARRIERS = ("bmv2", "bmv2-roce")


def running(carrier, **options):
    from vectors.targets import bmv2, bmv2_roce

    target = (bmv2_roce.Bmv2RoceTarget if carrier == "bmv2-roce" else bmv2.Bmv2Target)(**options)
    yield target
    target.close()


@pytest.fixture(scope="module", params=CARRIERS)
def kilobyte(request):
    yield from running(request.param, words=256)


@pytest.fixture(scope="module", params=CARRIERS)
def small_pages(request):
    from vectors.targets.bmv2 import SMALL_PAGES

    yield from running(request.param, sizes=SMALL_PAGES)


@pytest.fixture(scope="module", params=CARRIERS)
def shipped(request):
    yield from running(request.param)


def run(target, vector):
    reason = target.capabilities.lacks(vector.needs)
    if reason:
        pytest.skip(f"{target.name}: {reason}")
    runner.Runner(target).run(vector)


def with_payload(text, payload):
    """The vector with sessions of another payload where it says none, or needs a smaller one."""
    need = "needs payload "
    lines = text.splitlines()
    lines = [line for line in lines if not line.startswith(need) or int(line.removeprefix(need)) >= payload]
    for i, line in enumerate(lines):
        if line.startswith("session ") and "payload=" not in line:
            lines[i] = f"{line} payload={payload}"
    if not any(line.startswith(need) for line in lines):
        lines.append(f"{need}{payload}")
    return "\n".join(lines)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vector_with_1024_bytes(path, kilobyte):
    if path.stem in ABOUT_64_WORDS:
        pytest.skip("it is about 64 words")
    run(kilobyte, parse.parse(with_payload(path.read_text(encoding="utf-8"), 1024), path))


@pytest.mark.parametrize("operation", ("sum", "max"))
def test_each_of_256_words(operation, kilobyte, tmp_path):
    numbers = random.Random(operation)
    packets = [[numbers.randrange(-(2**31), 2**31) for _ in range(256)] for _ in range(3)]
    combine = max if operation == "max" else lambda column: wire.wrap(sum(column))
    result = [combine(column) for column in zip(*packets)]

    def words(values):
        return f"slot=0 seq=1 op={operation} words={','.join(map(str, values))}"

    lines = ["# Every word differs.", "needs payload 1024", "session A workers=3 payload=1024"]
    lines += [f"send A.{worker} {words(packet)}" for worker, packet in enumerate(packets)]
    lines += [f"expect A.* {words(result)}", "count contributions_added 3 uses_started 1 uses_completed 1"]
    runner.Runner(kilobyte).run(parse.parse("\n".join(lines), tmp_path / "words.txt"))


@pytest.mark.parametrize("path", [p for p in VECTORS if "needs shards" in p.read_text()], ids=lambda path: path.stem)
def test_vector_with_shards(path, small_pages):
    run(small_pages, parse.load(path))


@pytest.mark.parametrize("seed, workers", ((1, 2), (2, 8), (3, 33), (4, 64), (5, 8)))
def test_random_sequence(seed, workers, shipped, tmp_path):
    text = generate.Generator(seed, 300, workers, 256, True).text("the test's arguments repeat it")
    vector = parse.parse(text, tmp_path / f"random{seed}.txt")
    runner.Runner(shipped).run(vector)
    troubled.Troubled(shipped, seed).run(vector)
