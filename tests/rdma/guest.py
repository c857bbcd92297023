"""A computer that is emulated, with Debian's kernel, two RDMA cards in software and this host's files. `missing` says
why there is none.

init is its first process, and serve.sh what that runs. QEMU computes each instruction (no KVM), so it is slow, and time
in it means nothing.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time

import lab

HERE = pathlib.Path(__file__).parent
ADDRESSES = ("10.1.0.1", "10.1.0.2")  # of the cards
PATIENCE = 900.0  # seconds for anything that must come; the guest ends itself after 1800
PROCESSOR = "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt"  # what PyTorch needs, and no more that may be emulated wrongly
QEMU = "qemu-system-x86_64"
PR_SET_PDEATHSIG = 1


class GuestError(AssertionError):
    """The guest, or what ran in it, failed; `said` tells more."""


def kernel_folder():
    return pathlib.Path(os.environ.get("SWITCHML_TEST_GUEST", lab.ROOT / "build-guest"))


def missing():
    tools = [
        tool
        for tool in (QEMU, "ip", "rdma", "sysctl")
        if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None
    ]
    if tools:
        return f"not on PATH: {', '.join(tools)}"
    if not (kernel_folder() / "vmlinuz").exists():
        return f"no kernel in {kernel_folder()}, where .ci/setup.sh puts Debian's"
    if not pathlib.Path("/etc/libibverbs.d/rxe.driver").exists():
        return "no driver of libibverbs for Soft-RoCE (Debian's ibverbs-providers)"
    return ""


class Archive:
    """A file system for a kernel to begin with (cpio, "newc")."""

    def __init__(self):
        self.bytes, self.entries = bytearray(), 0

    def add(self, name, mode, data=b"", device=(0, 0)):
        self.entries += 1
        fields = (self.entries, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        self.bytes += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        for part in (b"", data):
            self.bytes += part
            self.bytes += bytes(-len(self.bytes) % 4)


def initial_files(kernel):
    archive = Archive()
    for folder in ("bin", "dev", "modules", "proc", "root", "sys"):
        archive.add(folder, 0o40755)
    archive.add("dev/console", 0o20600, device=(5, 1))
    archive.add("bin/busybox", 0o100755, (kernel / "busybox").read_bytes())
    archive.add("bin/sh", 0o120777, b"busybox")
    archive.add("init", 0o100755, (HERE / "init").read_bytes())
    for module in sorted((kernel / "modules").iterdir()):
        archive.add(f"modules/{module.name}", 0o100644, module.read_bytes())
    archive.add("TRAILER!!!", 0)
    return archive.bytes


def dies_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guest:
    """`folder` gets what it says, and what is exchanged with it."""

    def __init__(self, folder):
        self.folder, self.jobs = folder, folder / "jobs"
        self.jobs.mkdir()
        shutil.copy(HERE / "serve.sh", self.jobs)
        (folder / "initial").write_bytes(initial_files(kernel_folder()))
        shared = ("root", "/", ",readonly=on,multidevs=remap"), ("jobs", self.jobs, "")
        with open(folder / "console.log", "wb") as console:
            self.qemu = subprocess.Popen(
                [
                    QEMU, "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2", "-m", "3072", "-nodefaults",
                    "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
                    "-kernel", kernel_folder() / "vmlinuz", "-initrd", folder / "initial",
                    "-append", "console=ttyS0 quiet panic=-1 mitigations=off",
                    *[word for name, path, more in shared for word in (
                        "-fsdev", f"local,id={name},path={path},security_model=none{more}",
                        "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}")],
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, preexec_fn=dies_with_parent,
            )  # fmt: skip

    def start(self, name, command):
        """Beside what runs already."""
        (self.jobs / f"{name}.new").write_text(f"{command}\n")
        (self.jobs / f"{name}.new").rename(self.jobs / f"{name}.sh")

    def await_file(self, name, of=None):
        """What it says, once it is there. `of`: the job that is to write it, and must not end before."""
        path, end = self.jobs / name, time.monotonic() + PATIENCE
        while not path.exists():
            ended = of is not None and (self.jobs / f"{of}.status").exists()
            if (ended and not path.exists()) or self.qemu.poll() is not None or time.monotonic() > end:
                raise GuestError(f"{name} did not come")
            time.sleep(0.1)
        return path.read_text(errors="replace")

    def finish(self, name):
        """What the job has said, which must have gone well."""
        status = int(self.await_file(f"{name}.status"))
        if status != 0:
            raise GuestError(f"{name} ended with status {status}")
        return (self.jobs / f"{name}.log").read_text(errors="replace")

    def said(self):
        logs = [self.folder / "console.log", *sorted(self.jobs.glob("*.log"))]
        return "\n".join(f"---- {log.name}:\n{log.read_text(errors='replace')[-6000:]}" for log in logs)

    def close(self):
        (self.jobs / "end").touch()
        try:
            self.qemu.wait(30)
        except subprocess.TimeoutExpired:
            self.qemu.kill()
            self.qemu.wait()
