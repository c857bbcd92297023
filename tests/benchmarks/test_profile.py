"""benchmarks/profile: what it reads of callgrind's files, which stage gets what, and its table."""

import shutil
import subprocess
import sys

from benchmark_tools import BENCHMARKS, main_of

import callgrind
import pytest
import repository
import stages

# Two callers of memcpy, which costs 30 for one and 10 for the other, and wrong guesses the other way round; a helper in
# the program, of whose calls no object is said; names written once and then referred to; a file of inlined code.
SMALL = """# callgrind format
version: 1
positions: line
events: Ir Bcm
summary: 197 9

ob=(1) /program
fl=(1) backend/kernels/kernels_simd.h
fn=(1) switchml::(anonymous namespace)::Simd<switchml::(anonymous namespace)::Avx2>::quantize<float>(void const*)
10 90 1
fi=(2) /usr/include/c++/12/bits/stl_vector.h
+3 10
fe=(1)
cob=(2) /libc.so
cfi=(3) memcpy.S
cfn=(2) memcpy
calls=3 0
* 30 2
cfn=(4) switchml::quantize_scale(int, int)
calls=1 0
* 7

fl=(4) backend/timer/timer_wheel.cc
fn=(3) switchml::TimerWheel::arm(int)
5 50
cob=(2)
cfi=(3)
cfn=(2)
calls=1 0
-2 10 6

fl=(5) backend/integer/block_exponent.cc
fn=(4)
3 7

ob=(2)
fl=(3)
fn=(2)
7 40 8
totals: 197 9
"""


def stage_costs(text):
    return callgrind.attribute(callgrind.read(text), stages.stage_of)


def test_costs_of_what_serves_many_go_to_those_it_serves():
    assert stage_costs(SMALL) == {stages.QUANTIZE: [137.0, 3.0], stages.TIMERS: [60.0, 6.0]}


def test_nothing_is_lost():
    profile = callgrind.read(SMALL)
    assert profile.total() == [197.0, 9.0]
    assert [sum(costs) for costs in zip(*callgrind.attribute(profile, stages.stage_of).values())] == [197.0, 9.0]


def test_costs_go_up_through_helpers_of_helpers():
    """malloc is called by operator new, which a stage calls."""
    text = ("events: Ir\nfn=(1) switchml::RttEstimator::sample(long)\n1 5\ncfn=(2) operator new\ncalls=1 0\n1 100\n"
            "fn=(2)\n1 20\ncfn=(3) malloc\ncalls=1 0\n1 80\nfn=(3)\n1 80\n")  # fmt: skip
    assert stage_costs(text) == {stages.TIMERS: [105.0]}


def test_recursion_without_a_stage_ends_and_is_nobodys():
    text = ("events: Ir\nfn=(1) a\n1 10\ncfn=(2) b\ncalls=1 0\n1 20\nfn=(2) b\n1 10\ncfn=(1)\ncalls=1 0\n1 20\n")  # fmt: skip
    assert stage_costs(text) == {callgrind.OTHER: [20.0]}


@pytest.mark.parametrize("text, why", [("", "no line of events"), ("events: Ir\nfn=(7)\n1 5\n", r"line 2.*function \(7\) has no name"),
                                       ("fn=(1) a\n1 5\n", "line 1"), ("events: Ir\nfn=(1) a\n1 x\n", "line 3")])  # fmt: skip
def test_what_is_no_file_of_callgrinds_is_an_error(text, why):
    with pytest.raises(callgrind.FormatError, match=why):
        callgrind.read(text)


@pytest.mark.parametrize(
    "name, file, stage",
    [
        (
            "switchml::BlockRange switchml::(anonymous namespace)::Simd<a<b>>::range<c::d>(void const*, unsigned long)",
            "",
            stages.EXPONENTS,
        ),
        ("switchml::(anonymous namespace)::dot(unsigned char const*)", "", stages.WITNESS),
        ("switchml::siphash24(switchml::SipKey const&)", "", stages.WITNESS),
        (
            "switchml::IntegerCodec::decode_data(unsigned char const*) const",
            "x/backend/integer/integer_codec.cc",
            stages.DEQUANTIZE,
        ),
        (
            "switchml::IntegerCodec::decode_call(unsigned char const*) const",
            "x/backend/integer/integer_codec.cc",
            stages.EXPONENTS,
        ),
        ("switchml::IntegerFormat::seal(switchml::InFlight&)", "x/backend/integer/integer_format.cc", stages.PACKET),
        ("switchml::Shard::open_next(long)", "x/backend/engine/shard_frames.cc", stages.STREAM),
        ("switchml::SlotPool::accept(int)", "/usr/include/c++/12/bits/stl_vector.h", stages.STREAM),
        ("switchml::TimerWheel::cancel(int)", "/usr/include/c++/12/bits/stl_vector.h", stages.TIMERS),
        ("switchml::InprocHub::deliver(int) [clone .constprop.0]", "x/tests/unit/transport/inproc.h", stages.SEND),
        ("switchml::(anonymous namespace)::RdmaTransport::message_of(int)", "x/rdma.cc", stages.SEND),
        ("switchml::(anonymous namespace)::RdmaTransport::lend(int)", "x/rdma.cc", stages.RECEIVE),
        ("ibv_post_send", "x/tests/rdma/fake_verbs.cc", stages.CARD),
        ("switchml::wire::seal_exact(int)", "x/backend/wire/checksum.cc", stages.CHECKSUM),
        ("switchml::ExactAggregator::keep(int)", "x/backend/exact/exact_aggregator.cc", stages.KEEP),
        ("switchml::UdpReceiver::lend(int)", "x/backend/transport/udp_rx.cc", stages.RECEIVE),
        ("switchml::(anonymous namespace)::merge(int)", "x/backend/integer/integer_aggregator.cc", stages.ADD),
        ("switchml::softswitch::SoftSwitch::Impl::admit(int)", "x/backend/softswitch/switch.cc", stages.RULES),
        ("switchml::shm::Board::claim(int) const", "x/backend/shm/board.cc", stages.BOARD),
        ("switchml::shm::fill_frame(int)", "x/backend/shm/reducer.cc", stages.COPY),
        ("switchml::quantize_scale(int, int)", "x/backend/integer/block_exponent.cc", None),
        ("memcpy", "", None),
        (
            "void std::__insertion_sort<switchml::TxFrame*>(switchml::TxFrame*)",
            "/usr/include/c++/12/bits/stl_algo.h",
            None,
        ),
    ],
)
def test_stages(name, file, stage):
    assert stages.stage_of(name, file) == stage


def run_of(**cycles):
    """Of one chunk of 1000 bytes; instructions alone, so that they are the cycles."""
    zero = dict.fromkeys(("Ir", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bcm", "Bim", "sysCount"), 0.0)
    return {"path": "inproc", "ranks": 1, "bytes": 1000, "calls": 1, "chunks": 1, "chunk_bytes": 1000, "slots": 4, "kernels": "scalar",
            "stages": {"ranks": {name: {**zero, "Ir": float(value)} for name, value in cycles.items()}}}  # fmt: skip


def test_the_bottleneck_is_the_stage_with_the_most_cycles(capsys):
    tool = main_of("profile")
    run = run_of(quantize=300, witness=200, timers=1)
    run["stages"]["ranks"]["witness"].update(DLmr=1.0, D1mr=1.0)  # 110 cycles more
    tool.print_run(run)
    assert "next bottleneck: ranks: witness" in capsys.readouterr().out
    assert [row[1] for row in tool.side_rows(run, "ranks")] == ["witness", "quantize", "timers", "together"]
    assert tool.side_rows(run, "ranks")[0][2:7] == ["200", "0.200", "310", "0.310", "50.7%"]


def test_tables_for_the_documentation(capsys):
    """A stage that one of the runs lacks has empty cells there; the last run gives the order."""
    main_of("profile").print_markdown([run_of(quantize=3000, timers=10), run_of(quantize=20, witness=3000)])
    lines = capsys.readouterr().out.strip().splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2:] == ["| witness |  | |  | 3,000 | 3,000 | 3.00 |", "| quantize | 3,000 | 3,000 | 3.00 | 20 | 20 | 0.02 |",
                         "| timers | 10 | 10 | 0.01 |  | |  |", "| together | 3,010 | 3,010 | 3.01 | 3,020 | 3,020 | 3.02 |"]  # fmt: skip


def test_differences_of_two_runs():
    tool = main_of("profile")
    assert tool.largest_difference(run_of(a=100, b=100), run_of(a=100, b=100)) == 0
    assert tool.largest_difference(run_of(a=100, b=100), run_of(a=100, b=101)) == pytest.approx(0.005)


# ---- the program that is counted ----

PROGRAM = repository.built("benchmarks/profile/bench_profile")
CARDS = repository.built("tests/rdma/libibverbs.so.1")
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


@needs_program
@pytest.mark.parametrize(
    "path, more, further",
    [
        # a chunk that announces it, one of exponents
        ("inproc", [], 2),
        ("udp", [], 2),
        # one that announces it
        ("udp", ["--exact"], 1),
        ("rdma", ["--verbs", CARDS], 1),
        ("memory", [], 0),
    ],
)
def test_the_program_verifies_what_it_reduces(path, more, further):
    if path == "rdma" and not CARDS.exists():
        pytest.skip(f"{CARDS} is not built")
    tool = main_of("profile")
    answer = tool.execute(
        [PROGRAM, "--path", path, "--ranks", 3, "--payload", 8192, "--bytes", 300004, "--calls", 2, *more], {}
    )
    assert answer["path"] == path and answer["calls"] == 2 and answer["retransmissions"] == 0
    chunk = answer["chunk_bytes"]
    data = -(-300004 // chunk)
    assert answer["chunks"] == 2 * 3 * (data + further)


@needs_program
@pytest.mark.parametrize("options, said", [(["--path", "pigeon"], "--path=\"pigeon\" is not allowed: use inproc, udp, rdma or memory"), ([], "--path"),
                                           (["--path", "udp", "--ranks", "0"], "--ranks=\"0\" is not allowed: use 1 to 16"),
                                           (["--path", "udp", "--payload", "1000"], "--payload=\"1000\" is not allowed"),
                                           (["--path", "udp", "--bytes", "-4"], "--bytes=\"-4\" is not allowed")])  # fmt: skip
def test_the_program_refuses_what_is_not_allowed(options, said):
    done = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and said in done.stderr


@needs_program
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not on PATH")
def test_all_that_runs_has_a_stage_and_two_counts_are_equal():
    tool = main_of("profile")
    first, second = (tool.profile(PROGRAM, "inproc", 2, 1024, 65536, {"SWITCHML_KERNELS": "scalar"}) for _ in range(2))
    assert tool.largest_difference(first, second) < 0.001
    for side, found in (("ranks", {stages.QUANTIZE, stages.EXPONENTS, stages.WITNESS, stages.DEQUANTIZE, stages.TIMERS, stages.STREAM}),
                        ("switch", {stages.ADD, stages.RULES, stages.SEND, stages.RECEIVE})):  # fmt: skip
        counted = first["stages"][side]
        whole = sum(events["Ir"] for events in counted.values())
        assert found <= set(counted)
        assert counted.get(callgrind.OTHER, {"Ir": 0})["Ir"] < 0.03 * whole


def test_a_machine_without_valgrind_is_told_so(tmp_path):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "profile"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode == 1 and "valgrind is not on PATH: apt-get install valgrind" in done.stderr
