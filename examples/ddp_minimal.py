"""A dozen lines of data-parallel training; python -m torch.distributed.run --nproc_per_node 2 examples/ddp_minimal.py

For Gloo, the one word to change is the backend's name. PyTorch 2.5 and later find an installed switchml by that name;
before, add `import switchml`.
"""

import torch

torch.distributed.init_process_group(backend="switchml")
torch.manual_seed(torch.distributed.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(100, 32, 8):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True)).backward()
    optimizer.step()
if torch.distributed.get_rank() == 0:
    print("weights, to become all ones:", model.module.weight.tolist())
