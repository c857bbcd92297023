"""Hugging Face's accelerate; python -m torch.distributed.run --nproc_per_node 2 examples/with_accelerate.py [gloo]"""

import sys

import torch
from accelerate import Accelerator

backend = sys.argv[1] if len(sys.argv) > 1 else "switchml"
# Before accelerate, which by itself makes groups of Gloo on CPUs, and takes what is there.
torch.distributed.init_process_group(backend=backend)
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(6400, 8))  # of which each rank gets a part
model = torch.nn.Linear(8, 1)
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(data, batch_size=32)
)
for (x,) in loader:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True)))
    optimizer.step()
weights = accelerator.unwrap_model(model).weight.tolist()
if accelerator.is_main_process:
    print("weights, to become all ones:", weights)
