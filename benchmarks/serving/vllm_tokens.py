"""vLLM with a tiny model of random weights and tensor parallelism over two ranks: vllm_tokens.py WHAT, as JSON. Writes
what it generated, and how fast.

    {"model": FOLDER, "backend": "switchml", "batches": [1, 16], "tokens": 32, "repeats": 3, "out": FILE}

`backend` is switchml, gloo, or vllm, whose ranks share memory by themselves. With RANK in the environment this is one
of the ranks, as of torchrun; otherwise vLLM starts them, and each runs this file again: what is outside of main() holds
for all.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import generation
import launch

WHAT = json.loads(sys.argv[1])
LENGTH = 512

os.environ["VLLM_PLUGINS"] = "switchml" if WHAT["backend"] == "switchml" else ""
os.environ |= {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
LAUNCHED = "RANK" in os.environ
if LAUNCHED:
    launch.end_with_parent()
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": "1"}
else:  # it must be told where there are more ranks than NUMA nodes: a processor for each rank
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, sorted(os.sched_getaffinity(0))[:2]))

if WHAT["backend"] != "switchml":
    from vllm.distributed.device_communicators import cpu_communicator

    if WHAT["backend"] == "gloo":
        cpu_communicator.CpuCommunicator._all_group_ranks_share_shm_group_name = lambda self: False
    elif LAUNCHED:
        OWN_MEMORY = cpu_communicator._CPUSHMDistributed

        class Memory(OWN_MEMORY):
            """Its name is of this job alone, and nothing of it stays behind when the job is killed."""

            @staticmethod
            def make_group_name(group):
                return OWN_MEMORY.make_group_name(group) + os.environ["MASTER_PORT"]

            def __init__(self, communicator):
                super().__init__(communicator)
                pathlib.Path(f"/dev/shm/{self.group_name}_{communicator.rank}").unlink()  # both have it by now

        cpu_communicator._CPUSHMDistributed = Memory


def counters(worker):
    """What a worker's group of tensor parallelism moved."""
    from vllm.distributed.parallel_state import get_tp_group

    return generation.counters(get_tp_group().device_group) if WHAT["backend"] == "switchml" else {}


def texts(requests):
    return [
        [
            (token, chances[token].logprob)
            for token, chances in zip(request.outputs[0].token_ids, request.outputs[0].logprobs, strict=True)
        ]
        for request in requests
    ]


def main():
    from vllm import LLM, SamplingParams

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
    greedy = SamplingParams(temperature=0, max_tokens=WHAT["tokens"], ignore_eos=True, detokenize=False, logprobs=1)

    def generate(prompts):
        return llm.generate([{"prompt_token_ids": each} for each in prompts], greedy, use_tqdm=False)

    results = generation.measure(WHAT, generate, texts)
    generation.write(WHAT, {**results, "counters": llm.collective_rpc(counters)})


if __name__ == "__main__":
    main()
