"""DDP whose gradients travel in 8 bits, or 16, with the bytes that a rank sends beside those of float32;
python -m torch.distributed.run --nproc_per_node 2 examples/ddp_with_narrow_gradients.py [fp8|int8|bf16]

On one host rank 0 adds for all, and another rank sends its part of the mean besides its gradients: at two ranks 0.39 of
the bytes with 8 bits. Between two hosts, each of which adds a part, it is 0.26 to 0.3.
"""

import os
import sys

os.environ.setdefault("SWITCHML_TRANSPORT", "tcp")  # ranks of one host would share memory, and send nothing

import torch
import torch.distributed as dist

import switchml
from switchml import hooks


def train(hook):
    """(the last loss, the bytes that this rank has sent)"""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    model = torch.nn.parallel.DistributedDataParallel(model)
    groups = [dist.group.WORLD]
    if hook:
        state = hooks.State(gather_group=dist.new_group())
        groups.append(state.gather_group)
        model.register_comm_hook(state, hook)
    before = sum(switchml.stats(group)["bytes_sent"] for group in groups)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for x in torch.randn(200, 32, 64, generator=generator):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x.square().mean(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
    return loss.item(), sum(switchml.stats(group)["bytes_sent"] for group in groups) - before


dist.init_process_group(backend="switchml")
name = sys.argv[1] if len(sys.argv) > 1 else "fp8"
results = {"float32": train(None), name: train(getattr(hooks, name))}
if dist.get_rank() == dist.get_world_size() - 1:  # rank 0 has the switch, and sends itself nothing
    for what, (loss, sent) in results.items():
        print(f"{what}: loss {loss:.4f}, {sent} bytes sent, {sent / results['float32'][1]:.2f} of float32's")
dist.destroy_process_group()
