"""The accelerator of tests/device in this process, as the device type "mock"."""

import glob
import importlib
import os
import types

import torch
from harness import TORCH, seconds, this_rank

#: CMake builds it for a PyTorch that has what it needs.
IS_FOR_THIS_TORCH = TORCH >= (2, 13)
if IS_FOR_THIS_TORCH:
    importlib.import_module("torch._dynamo")  # For optimizers; once, and not in each of the ranks that are forked.

#: As tests/device/machine.h has it.
DEVICES = 2


def library():
    """Its path, from the build that the package under test lies in."""
    import switchml

    build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(switchml.__file__))))
    found = glob.glob(os.path.join(build, "tests", "device", "switchml_test_device*.so"))
    assert found, f"the target switchml_test_device is not built in {build}"
    return found[0]


def by_the_cpu(operation):
    """That operation on copies of its tensors; for those that PyTorch's own fallback to the CPU leaves out."""

    def called(*arguments):
        on_cpu = [each.cpu() if isinstance(each, torch.Tensor) else each for each in arguments]
        results = operation(*on_cpu)
        if isinstance(results, torch.Tensor):
            return results.to("mock")
        return tuple(None if each is None else each.to("mock") for each in results)

    return called


def convolution_backward(gradient, inputs, weight, stride, padding, dilation, transposed, output_padding, groups, mask):
    return torch.ops.aten.convolution_backward(
        gradient, inputs, weight, None, stride, padding, dilation, transposed, output_padding, groups, mask
    )


def add_convolutions():
    library = torch.library.Library("aten", "IMPL")
    library.impl("convolution_overrideable", by_the_cpu(torch.ops.aten.convolution), "PrivateUse1")
    library.impl("convolution_backward_overrideable", by_the_cpu(convolution_backward), "PrivateUse1")
    return library


def load(seed=0, keeps_pinned=False):
    """Once in a process; in one that was made for the test, because it is its accelerator from then on. keeps_pinned:
    copies keep the pinned memory that they use, as CUDA's do and DDP needs it; else its owner has to."""
    if not hasattr(torch, "mock"):
        torch.ops.load_library(library())
        torch.utils.rename_privateuse1_backend("mock")
        module = types.ModuleType("torch.mock")
        module.is_available = lambda: True
        module.device_count = lambda: DEVICES
        module.current_device = torch.accelerator.current_device_index
        module.set_device = torch.accelerator.set_device_index
        module.device = lambda device: torch.accelerator.device_index(device.index)
        module.current_stream = torch.accelerator.current_stream
        module.synchronize = torch.accelerator.synchronize
        module._is_in_bad_fork = lambda: False
        module.manual_seed_all = lambda seed: None
        module.is_initialized = lambda: True
        module.get_device_name = lambda index=None: "mock"
        module.Stream = lambda device=None, priority=0: torch.Stream(device="mock")
        module.Event = lambda **options: torch.Event(device="mock")
        module.stream = lambda stream: stream
        module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
        torch._register_device_module("mock", module)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
        module.convolutions = add_convolutions()
    torch.ops.mock_device.seed(seed)
    torch.ops.mock_device.keep_pinned(keeps_pinned)


def join(folder, size, seed=0):
    """Makes the default group, of tensors of the host and of the device, of this rank of a pool."""
    load(seed)
    torch.distributed.init_process_group(
        "cpu:switchml,mock:switchml",
        init_method=f"file://{folder}/store",
        rank=this_rank(),
        world_size=size,
        timeout=seconds(60),
    )


def losses_of(model, inputs, steps):
    """Of a training of that model, which has one output."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def pinned_bytes():
    """Of the host's memory that the device reaches: in use, ever taken, and in use at most."""
    return tuple(torch.ops.mock_device.pinned_bytes())
