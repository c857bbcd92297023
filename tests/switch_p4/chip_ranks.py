"""In the guest of tests/rdma: ranks with a card and a switch in P4: python chip_ranks.py FOLDER PROGRAM CONTROLLER.

Two ranks share the card (Soft-RoCE), and the switch's port: each has two queue pairs of its own. FOLDER gets chip.json:
by "card" and by "packets", what each rank got, and what the card has sent meanwhile.

    ranks, card on `data` --- port 0 | simple_switch | control port --- switchml_agent --- switchml-controller
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parents[0] / folder) for folder in ("rdma", "python")] + [str(HERE.parent)]

import harness  # noqa: E402
import rdma_ranks  # noqa: E402
import reducing_rank  # noqa: E402
import switchml  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

SWITCH_IP, SWITCH_MAC = "10.2.0.254", "02:77:00:00:ff:fe"
AGENT, CONTROLLER, THRIFT = "127.0.0.1:50052", "127.0.0.1:50051", "127.0.0.1:9090"
PATIENCE = 600.0
WIRES = """
ip link add data type veth peer name s0
ip link add cpu type veth peer name s1
for end in data s0 cpu s1; do ip link set $end mtu 4000 up; done
ip address add 10.2.0.1/24 dev data
ethtool -K data tx off
rdma link add chip0 type rxe netdev data
"""


def await_port(address, process):
    host, port = address.split(":")
    end = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"nobody listens on {address}")
        time.sleep(0.2)


def start_switch(program, controller, folder):
    """The switch, its agent and a controller."""
    subprocess.run(["bash", "-e", "-c", WIRES], check=True)
    switch = subprocess.Popen([
        "simple_switch", "-i", "0@s0", "-i", "1@s1", "--thrift-port", THRIFT.split(":")[1],
        "--notifications-addr", f"ipc://{folder}/notifications.ipc", program])  # fmt: skip
    await_port(THRIFT, switch)
    # An emulated processor takes long to read it the first time: longer than the agent waits for it.
    subprocess.run(["simple_switch_CLI", "--thrift-port", THRIFT.split(":")[1]], stdin=subprocess.DEVNULL, check=True,
                   timeout=PATIENCE)  # fmt: skip
    (folder / "agent.token").write_text("token-of-the-agent\n")
    agent = subprocess.Popen([
        sys.executable, "-m", "switchml_agent", "bmv2", "--thrift", THRIFT, "--listen", AGENT,
        "--control-interface", "cpu", "--control-port", "1", "--address", SWITCH_IP, "--mac", SWITCH_MAC,
        "--token-file", folder / "agent.token"])  # fmt: skip
    await_port(AGENT, agent)
    (folder / "topology.yaml").write_text(
        f"switches:\n  - name: bench\n    agent: {AGENT}\n    agent_token_file: agent.token\n    address: {SWITCH_IP}:48879\n"
    )
    topology = ["--topology", folder / "topology.yaml", "--insecure-no-token"]
    controller = subprocess.Popen([controller, *topology, "--listen", CONTROLLER])
    await_port(CONTROLLER, controller)
    return [switch, agent, controller]


def reduce(rank):
    """Of many types; none that is long, because the switch takes its time where each instruction is computed."""
    tensors = [(tensor, operation) for tensor, operation in reducing_rank.tensors(rank) if tensor.numel() < 4000]
    for tensor, operation in tensors:
        dist.all_reduce(tensor, op=operation)
    return [rdma_ranks.digest(tensor) for tensor, _ in tensors]


def answer(settings):
    pool, rank = harness._rank_state["place"]
    os.environ.update(settings)
    dist.init_process_group(
        "switchml", init_method=f"file://{pool.folder}/store", rank=rank, world_size=pool.size,
        timeout=harness.seconds(600),
    )  # fmt: skip
    results, stats = reduce(rank), switchml.stats()
    dist.destroy_process_group()
    return {"results": results, "session": stats["session"], "elements": stats["elements_summed_by_switch"]}


def sent():
    return int(pathlib.Path("/sys/class/infiniband/chip0/ports/1/hw_counters/sent_pkts").read_text())


def arrange(transport):
    before = sent()
    pool = harness.Pool(2, join_group=False, with_gloo=False)
    settings = {
        "SWITCHML_TRANSPORT": transport, "SWITCHML_CONTROLLER": CONTROLLER, "SWITCHML_PRECISION": "integer",
        "SWITCHML_RTO_MIN": "5000", "SWITCHML_RTO_MAX": "20000", "SWITCHML_SLOTS": "16",
        "SWITCHML_SHARDS": "2", "SWITCHML_FAILURE_TIMEOUT": "200",
        "SWITCHML_CONNECT_TIMEOUT": "600", "SWITCHML_INTERFACE": "data",
    }  # fmt: skip
    ranks = pool.run(answer, settings, timeout=900)
    pool.close()
    return {"ranks": ranks, "sent": sent() - before}


def main():
    folder, program, controller = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    running = start_switch(program, controller, pathlib.Path(os.environ["TMPDIR"]))
    found = {}
    for way, transport in {"card": "rdma", "packets": "udp"}.items():
        begun = time.monotonic()
        found[way] = arrange(transport)
        print(f"{transport}: {time.monotonic() - begun:.1f} s", flush=True)
    for process in running:
        process.terminate()
    (folder / "chip.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
