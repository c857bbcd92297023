"""What tests/rdma boots, out of Debian's packages, none of which is installed: guest_kernel.py FOLDER PACKAGE.deb...

FOLDER gets `vmlinuz`, `busybox`, and in `modules` those that the guest needs, numbered in the order in which they are
loaded. Checksums of packets are crc32_generic's: the guest's processor has no instruction for crc32_pclmul.
"""

import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile

WANTED = ("virtio_pci", "9pnet_virtio", "9p", "crc32_generic", "veth", "ib_uverbs", "rdma_rxe")


class Modules:
    """Those of an unpacked package, by name, without "-": names say it as they like."""

    def __init__(self, unpacked: pathlib.Path) -> None:
        found = [path for path in unpacked.rglob("*.ko*") if path.suffix in (".ko", ".xz")]
        self.paths = {path.name.split(".")[0].replace("-", "_"): path for path in found}
        self.in_order: list[str] = []

    def read(self, name: str) -> bytes:
        path = self.paths[name]
        return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()

    def add(self, name: str) -> None:
        """After what it depends on. What the kernel has built in is no file."""
        if name in self.in_order or name not in self.paths:
            return
        depends = self.read(name).split(b"\0depends=", 1)[1].split(b"\0", 1)[0].decode()
        for other in filter(None, depends.split(",")):
            self.add(other.replace("-", "_"))
        self.in_order.append(name)


def main() -> None:
    folder, packages = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="build-unpacked-") as name:
        unpacked = pathlib.Path(name)
        for package in packages:
            subprocess.run(["dpkg-deb", "-x", package, name], check=True)
        modules = Modules(unpacked)
        for wanted in WANTED:
            modules.add(wanted)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "modules").mkdir(parents=True)
        for number, module in enumerate(modules.in_order):
            (folder / "modules" / f"{number:02}-{module}.ko").write_bytes(modules.read(module))
        shutil.copy(next(unpacked.glob("boot/vmlinuz-*")), folder / "vmlinuz")
        shutil.copy(next(unpacked.rglob("bin/busybox")), folder / "busybox")


if __name__ == "__main__":
    main()
