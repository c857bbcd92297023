"""Data-parallel training whose replicas may die and come back, with torchft. The lighthouse, and two replicas:

    torchft_lighthouse --min_replicas 1 --join_timeout_ms 1000 &
    export TORCHFT_LIGHTHOUSE=http://localhost:29510
    python -m torch.distributed.run --max-restarts 9 --standalone examples/with_torchft.py 4000 &
    python -m torch.distributed.run --max-restarts 9 --standalone examples/with_torchft.py 4000

The argument is the number of steps. Each line has a step, the replicas that took part, and a hash of the weights.
"""

import datetime
import hashlib
import sys

import torch
import torchft

from switchml.torchft import ProcessGroupSwitchML

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def load(saved):
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


timeout = datetime.timedelta(seconds=10)
group = ProcessGroupSwitchML(timeout)
manager = torchft.Manager(group, load, state, min_replica_size=1, timeout=timeout)
replicated = torchft.DistributedDataParallel(manager, model)
steps = torchft.Optimizer(manager, optimizer)

while manager.current_step() < STEPS:
    x = torch.randn(32, 8)
    before = manager.current_step()
    steps.zero_grad()  # begins a step: which replicas take part?
    torch.nn.functional.mse_loss(replicated(x), x.sum(dim=1, keepdim=True)).backward()
    steps.step()  # only if all gradients have come
    hashed = hashlib.sha256(torch.cat([each.flatten() for each in model.parameters()]).detach().numpy()).hexdigest()
    outcome = hashed[:16] if manager.current_step() > before else "lost"
    print(f"step {manager.current_step()}, {manager.num_participants()} replicas: {outcome}", flush=True)

manager.shutdown()
group.shutdown()
