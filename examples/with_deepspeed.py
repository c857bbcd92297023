"""DeepSpeed's ZeRO; python -m torch.distributed.run --nproc_per_node 2 examples/with_deepspeed.py [gloo [STAGE]]"""

import sys

import deepspeed
import torch

backend = sys.argv[1] if len(sys.argv) > 1 else "switchml"
stage = int(sys.argv[2]) if len(sys.argv) > 2 else 3
deepspeed.init_distributed(dist_backend=backend)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
settings = {
    "train_micro_batch_size_per_gpu": 32,
    "zero_optimization": {"stage": stage},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,  # which would be compiled at the first run
}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
torch.manual_seed(torch.distributed.get_rank())
for x in torch.randn(100, 32, 8):
    engine.backward(torch.nn.functional.mse_loss(engine(x), x.sum(dim=1, keepdim=True)))
    engine.step()
with deepspeed.zero.GatheredParameters(list(model.parameters())):
    weights = model.weight.tolist()
if torch.distributed.get_rank() == 0:
    print("weights, to become all ones:", weights)
