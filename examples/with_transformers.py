"""transformers' Trainer; python -m torch.distributed.run --nproc_per_node 2 examples/with_transformers.py [gloo]"""

import sys
import tempfile

import torch
from transformers import Trainer, TrainingArguments

backend = sys.argv[1] if len(sys.argv) > 1 else "switchml"
# Before TrainingArguments, which by itself makes groups of Gloo on CPUs, and takes what is there.
torch.distributed.init_process_group(backend=backend)


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), x.sum(dim=1, keepdim=True))}


torch.manual_seed(0)
data = [{"x": x} for x in torch.randn(6400, 8)]  # of which each rank gets a part
model = Sum()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, use_cpu=True, per_device_train_batch_size=32, num_train_epochs=1, learning_rate=0.1, optim="sgd",
        lr_scheduler_type="constant", report_to="none", save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=data).train()
weights = model.layer.weight.tolist()
if torch.distributed.get_rank() == 0:
    print("weights, to become all ones:", weights)
