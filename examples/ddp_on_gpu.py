"""DDP on GPUs; python -m torch.distributed.run --nproc_per_node 2 examples/ddp_on_gpu.py [nccl]

Gradients go through the host. Any accelerator that PyTorch knows will do.
"""

import os
import sys

import torch

backend = sys.argv[1] if len(sys.argv) > 1 else "switchml"
device = torch.accelerator.current_accelerator()
torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]) % torch.accelerator.device_count())
torch.distributed.init_process_group(backend=backend)
torch.manual_seed(torch.distributed.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(100, 32, 8).to(device):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True)).backward()
    optimizer.step()
weights = model.module.weight.tolist()
if torch.distributed.get_rank() == 0:
    print("weights, to become all ones:", weights)
