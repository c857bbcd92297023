"""Lightning; python -m torch.distributed.run --nproc_per_node 2 examples/with_lightning.py [gloo [ddp|fsdp2]]"""

import sys

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch.distributed.fsdp import fully_shard

backend = sys.argv[1] if len(sys.argv) > 1 else "switchml"
sharded = sys.argv[2:] == ["fsdp2"]  # Lightning's own FSDPStrategy is for GPUs only
if sharded:
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1, process_group_backend=backend)
else:
    strategy = DDPStrategy(process_group_backend=backend)


class Sum(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def configure_model(self):
        if sharded:
            fully_shard(self.layer, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, index):
        (x,) = batch
        loss = torch.nn.functional.mse_loss(self.layer(x), x.sum(dim=1, keepdim=True))
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(6400, 8))  # of which each rank gets a part
model = Sum()
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=strategy, max_epochs=1, **quiet)
trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=32))
weights = model.layer.weight
weights = (weights.full_tensor() if hasattr(weights, "full_tensor") else weights).tolist()
if trainer.is_global_zero:
    print("weights, to become all ones:", weights)
