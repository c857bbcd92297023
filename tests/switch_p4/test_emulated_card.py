"""Workers come to the P4 program by a card that the kernel emulates (Soft-RoCE), in a computer that QEMU does."""

import json
import os
import pathlib
import sys

import lab
import pytest
from vectors.targets import bmv2_switch as bmv2

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "rdma"))

import guest as emulated  # noqa: E402


def missing():
    controller = lab.program("switchml-controller")
    return bmv2.missing() or emulated.missing() or ("" if controller else "switchml-controller is not built")


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def test_ranks_with_a_card_get_the_bits_that_packets_give(tmp_path):  # [RDMA-9 to RDMA-15]
    program = bmv2.compile_program(tmp_path)
    guest = emulated.Guest(tmp_path)
    try:
        guest.await_file("connected")
        paths = f"PYTHONPATH={lab.build_folder() / 'python'} PATH={os.environ['PATH']}"
        script = (
            f"{sys.executable} -B {HERE / 'chip_ranks.py'} /run/jobs {program} {lab.program('switchml-controller')}"
        )
        guest.start("chip", f"env {paths} {script}")
        guest.finish("chip")
        over = json.loads(guest.await_file("chip.json"))
    except emulated.GuestError as error:
        pytest.fail(f"{error}\n{guest.said()}")
    finally:
        guest.close()
    for by_card, by_packets in zip(over["card"]["ranks"], over["packets"]["ranks"], strict=True):
        assert by_card["session"]["transport"] == "rdma" and by_packets["session"]["transport"] == "udp"
        assert by_card["session"]["payload_bytes"] == by_packets["session"]["payload_bytes"] == 256
        assert by_card["session"]["precision"] == by_packets["session"]["precision"] == "integer"
        assert by_card["results"] == by_packets["results"] == over["card"]["ranks"][0]["results"] != []
        assert by_card["elements"] == by_packets["elements"] > 0
    # Contributions of both ranks, 64 elements each.
    assert over["card"]["sent"] >= 2 * over["card"]["ranks"][0]["elements"] / 64 and over["packets"]["sent"] == 0
