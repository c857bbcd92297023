"""vLLM with a tiny model of random weights and tensor parallelism over two ranks: tokens.py WHAT, as JSON. Writes what
it generated, and how fast.

    {"model": FOLDER, "backend": "switchml", "batches": [1, 16], "tokens": 32, "repeats": 3, "out": FILE}

`backend` is switchml, gloo, or vllm, whose ranks share memory by themselves. With RANK in the environment this is one
of the ranks, as of torchrun; otherwise vLLM starts them, and each runs this file again: what is outside of main() holds
for all.
"""

import json
import os
import pathlib
import sys
import time

WHAT = json.loads(sys.argv[1])
WORDS, LENGTH = 2048, 512
PROMPT = 16  # tokens

os.environ["VLLM_PLUGINS"] = "switchml" if WHAT["backend"] == "switchml" else ""
os.environ |= {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
LAUNCHED = "RANK" in os.environ
if LAUNCHED:
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": "1"}
else:  # it must be told where there are more ranks than NUMA nodes: a processor for each rank
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, sorted(os.sched_getaffinity(0))[:2]))

if WHAT["backend"] != "switchml":
    from vllm.distributed.device_communicators import cpu_communicator

    if WHAT["backend"] == "gloo":
        cpu_communicator.CpuCommunicator._all_group_ranks_share_shm_group_name = lambda self: False
    elif LAUNCHED:  # its name would be that of any job, also of one that was killed and has left its memory
        name_of = cpu_communicator._CPUSHMDistributed.make_group_name
        cpu_communicator._CPUSHMDistributed.make_group_name = staticmethod(
            lambda group: name_of(group) + os.environ["MASTER_PORT"]
        )


def counters(worker):
    """What a worker's group of tensor parallelism moved."""
    from vllm.distributed.parallel_state import get_tp_group

    if WHAT["backend"] != "switchml":
        return {}
    import switchml

    stats = switchml.stats(get_tp_group().device_group)
    return {name: value for name, value in stats.items() if isinstance(value, (int, str))}


def generate(llm, batch):
    """(token numbers and their logarithms of probability by request, tokens per second)"""
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": [(17 * row + 31 * at) % WORDS for at in range(PROMPT)]} for row in range(batch)]
    greedy = SamplingParams(temperature=0, max_tokens=WHAT["tokens"], ignore_eos=True, detokenize=False, logprobs=1)
    begin = time.perf_counter()
    requests = llm.generate(prompts, greedy, use_tqdm=False)
    seconds = time.perf_counter() - begin
    texts = []
    for request in requests:
        output = request.outputs[0]
        texts.append(
            [(token, chances[token].logprob) for token, chances in zip(output.token_ids, output.logprobs, strict=True)]
        )
    return texts, batch * WHAT["tokens"] / seconds


def main():
    from vllm import LLM

    llm = LLM(
        WHAT["model"],
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=LENGTH,
        enable_prefix_caching=False,
        enforce_eager=True,
        dtype="bfloat16",
        tensor_parallel_size=2,
        distributed_executor_backend="external_launcher" if LAUNCHED else "mp",
    )
    texts, speeds = {}, {}
    for batch in WHAT["batches"]:
        generate(llm, batch)  # everything for the first time
        runs = [generate(llm, batch) for _ in range(WHAT["repeats"])]
        texts[batch], speeds[batch] = runs[0][0], [speed for _, speed in runs]
    results = {"speeds": speeds, "texts": texts, "counters": llm.collective_rpc(counters)}
    pathlib.Path(WHAT["out"]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
