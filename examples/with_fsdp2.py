"""FSDP2 on CPUs; python -m torch.distributed.run --nproc_per_node 2 examples/with_fsdp2.py [gloo]"""

import sys

import torch
from torch.distributed.fsdp import fully_shard

backend = sys.argv[1] if len(sys.argv) > 1 else "switchml"
torch.distributed.init_process_group(backend=backend)
torch.manual_seed(0)  # all ranks begin with the same weights, of which each then keeps a part
mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
model = fully_shard(torch.nn.Linear(8, 1), mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(torch.distributed.get_rank())
for x in torch.randn(100, 32, 8):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True)).backward()
    optimizer.step()
weights = model.weight.full_tensor().tolist()
if torch.distributed.get_rank() == 0:
    print("weights, to become all ones:", weights)
