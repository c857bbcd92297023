"""Tokens per second of vLLM over two ranks, on one host or on two, by backend."""

import json
import pathlib
import socket
import statistics
import tempfile

import launch
import repository  # noqa: F401  the path to lab

import lab

TOKENS = pathlib.Path(__file__).with_name("tokens.py")
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 2048,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}
BACKENDS = {1: ("switchml", "gloo", "vllm"), 2: ("switchml", "gloo")}  # by hosts: vLLM's own memory is of one host


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(made, name, what, python, path, hosts):
    """{name: process} of two ranks; hosts: their namespaces, or None twice."""
    at, device = ("127.0.0.1", "lo") if hosts[0] is None else ("10.79.0.1", "data")
    common = {"PYTHONPATH": path, "WORLD_SIZE": "2", "MASTER_ADDR": at, "MASTER_PORT": str(free_port())}
    common |= {"GLOO_SOCKET_IFNAME": device}
    if hosts[0]:
        common["SWITCHML_INTERFACE"] = device
    processes = {}
    for rank, host in enumerate(hosts):
        own = {"RANK": str(rank), "LOCAL_RANK": "0" if host else str(rank)}
        which = {**what, "out": str(made.folder / f"{name}-{rank}.json")}
        command = [python, TOKENS, json.dumps(which)]
        processes[f"{name}-{rank}"] = made.start(f"{name}-{rank}", *command, namespace=host, **common, **own)
    return processes


def run(python, path, hosts, batches, tokens, repeats):
    """{backend: what tokens.py has of each rank}"""
    results = {}
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder, lab.Lab(pathlib.Path(folder)) as made:
        (made.folder / "config.json").write_text(json.dumps(LLAMA))
        places = [None, None]
        if hosts == 2:
            bridge = made.make_bridge("b")
            places = [made.make_host(bridge, f"r{rank}", "data", f"10.79.0.{rank + 1}") for rank in range(2)]
        for name in BACKENDS[hosts]:
            what = {"model": folder, "backend": name, "batches": batches, "tokens": tokens, "repeats": repeats}
            ranks = start(made, name, what, python, path, places)
            made.finish(ranks, launch.PATIENCE)
            results[name] = [json.loads((made.folder / f"{rank}.json").read_text()) for rank in ranks]
    return results


def speeds(results):
    """{backend: {batch: tokens per second}}"""
    return {
        name: {int(batch): statistics.median(each) for batch, each in ranks[0]["speeds"].items()}
        for name, ranks in results.items()
    }
