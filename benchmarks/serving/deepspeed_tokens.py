"""One of two ranks of DeepSpeed with a tiny model of random weights and tensor parallelism: deepspeed_tokens.py WHAT,
as vllm_tokens.py has it. `backend` is switchml, gloo, or deepspeed, whose ranks share memory by themselves."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import generation
import launch

launch.end_with_parent()
os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu"}
import deepspeed  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402


def initialize(backend):
    if backend == "deepspeed":
        os.environ["LOCAL_SIZE"] = os.environ["WORLD_SIZE"]  # without it the ranks crash
        deepspeed.init_distributed(dist_backend="gloo")
        name = f"{os.environ['MASTER_ADDR']}_{os.environ['MASTER_PORT']}_{os.environ['RANK']}"
        torch.distributed.barrier()
        for path in pathlib.Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*_{name}"):
            path.unlink()  # all have it by now, and it stays otherwise
    else:
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed(dist_backend=backend)


def main():
    what = json.loads(sys.argv[1])
    initialize(what["backend"])
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(what["model"])
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()
    engine = deepspeed.init_inference(model, tensor_parallel={"tp_size": 2}, dtype=torch.bfloat16)
    number = what["tokens"]

    def generate(prompts):
        tokens = torch.tensor(prompts)
        return engine.generate(
            tokens, attention_mask=torch.ones_like(tokens), do_sample=False, pad_token_id=0, output_scores=True,
            return_dict_in_generate=True, max_new_tokens=number, min_new_tokens=number,
        )  # fmt: skip

    def texts(generated):
        tokens = generated.sequences[:, -number:]
        chances = torch.stack(generated.scores, 1).float().log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
        return [list(zip(*both)) for both in zip(tokens.tolist(), chances.tolist())]

    results = generation.measure(what, generate, texts)
    group = engine.mp_group
    results["counters"] = [generation.counters(group)] if what["backend"] == "switchml" else []
    generation.write(what, results)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
