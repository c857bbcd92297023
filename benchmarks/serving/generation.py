"""Tokens per second of an engine over two ranks, on one host or on two, by backend."""

import json
import pathlib
import socket
import statistics
import tempfile
import time

import launch
import repository  # noqa: F401  the path to lab

import lab

HERE = pathlib.Path(__file__).parent
ENGINES = ("vllm", "deepspeed")  # ENGINE_tokens.py is a rank of one
PROMPT = 16  # tokens
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


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(made, engine, name, what, python, path, hosts):
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
        command = [python, HERE / f"{engine}_tokens.py", json.dumps(which)]
        processes[f"{name}-{rank}"] = made.start(f"{name}-{rank}", *command, namespace=host, **common, **own)
    return processes


def run(engine, python, path, hosts, batches, tokens, repeats):
    """{backend: what each rank has written}. The engine's own memory, by its name, is of one host."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder, lab.Lab(pathlib.Path(folder)) as made:
        (made.folder / "config.json").write_text(json.dumps(LLAMA))
        places = [None, None]
        if hosts == 2:
            bridge = made.make_bridge("b")
            places = [made.make_host(bridge, f"r{rank}", "data", f"10.79.0.{rank + 1}") for rank in range(2)]
        for name in ("switchml", "gloo", engine)[: 3 if hosts == 1 else 2]:
            what = {"model": folder, "backend": name, "batches": batches, "tokens": tokens, "repeats": repeats}
            ranks = start(made, engine, name, what, python, path, places)
            made.finish(ranks, launch.PATIENCE)
            results[name] = [json.loads((made.folder / f"{rank}.json").read_text()) for rank in ranks]
    return results


def speeds(results):
    """{backend: {batch: tokens per second}}"""
    return {
        name: {int(batch): statistics.median(each) for batch, each in ranks[0]["speeds"].items()}
        for name, ranks in results.items()
    }


# ---- in the ranks ----


def measure(what, generate, texts):
    """texts(what generate() returned): by request, tokens and the logarithms of their probabilities."""
    speeds, found = {}, {}
    for batch in what["batches"]:
        prompts = [[(17 * row + 31 * at) % LLAMA["vocab_size"] for at in range(PROMPT)] for row in range(batch)]
        found[batch], speeds[batch] = texts(generate(prompts)), []  # everything for the first time
        for _ in range(what["repeats"]):
            begin = time.perf_counter()
            generate(prompts)
            speeds[batch].append(batch * what["tokens"] / (time.perf_counter() - begin))
    return {"speeds": speeds, "texts": found}


def counters(group):
    import switchml

    return {name: value for name, value in switchml.stats(group).items() if isinstance(value, (int, str))}


def write(what, results):
    pathlib.Path(what["out"]).write_text(json.dumps(results))
