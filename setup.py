"""Builds the wheel: CMake builds the extension and the switch, setuptools packs them.

SWITCHML_BUILD_DIR names a build folder to use (and reuse) instead of a temporary one; SWITCHML_BUILD_JOBS, or MAX_JOBS
as PyTorch has it, the number of compilers at once. With SWITCHML_PYTHON_ONLY=1 nothing is compiled: the planner and the
agents need no PyTorch.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
PYTHON_ONLY = os.environ.get("SWITCHML_PYTHON_ONLY") == "1"


def cmake():
    """cmake of the PATH, or of the package "cmake"."""
    program = shutil.which("cmake")
    if program:
        return program
    try:
        import cmake as package
    except ImportError:
        sys.exit("switchml: building needs cmake 3.25 or newer: install it (apt install cmake, or pip install cmake)")
    return str(pathlib.Path(package.CMAKE_BIN_DIR) / "cmake")


def need_linux():
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in ("x86_64", "aarch64"):
        sys.exit(
            f"switchml: {system} on {machine} is not supported: allowed is Linux on x86_64 or aarch64 (elsewhere in a "
            "container or a virtual machine: examples/deploy/Dockerfile)"
        )


def need_torch():
    try:
        import torch  # noqa: F401
    except ImportError as error:
        sys.exit(
            f"switchml: building needs PyTorch in {sys.executable} ({error}). It is built for the one that is installed, so "
            "use `pip install --no-build-isolation .`"
        )


def jobs():
    """Compilers at once: one per processor, and per 2 GiB of free memory, which PyTorch's headers take."""
    if named := os.environ.get("SWITCHML_BUILD_JOBS") or os.environ.get("MAX_JOBS"):
        return named
    kib = re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text())
    by_memory = int(kib[1]) >> 21 if kib else 1
    return str(max(1, min(len(os.sched_getaffinity(0)), by_memory)))


class BuildWithCMake(build_ext):
    def run(self):
        if PYTHON_ONLY:
            return self.collect_agent(ROOT / "backend" / "api")
        need_linux()
        need_torch()
        given = os.environ.get("SWITCHML_BUILD_DIR")
        folder = pathlib.Path(given) if given else pathlib.Path(self.build_temp).resolve()
        if not (given and (folder / "CMakeCache.txt").exists()):
            self.configure(folder, own=not given)
        subprocess.check_call([cmake(), "--build", str(folder), "--target", "switchml_package", "-j", jobs()])
        self.collect(folder / "python" / "switchml")

    def configure(self, folder, own):
        folder.mkdir(parents=True, exist_ok=True)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "SWITCHML_BUILD_TORCH": "ON",
            "SWITCHML_BUILD_TESTS": "OFF",
            "SWITCHML_BUILD_BENCHMARKS": "OFF",
            "SWITCHML_CONTROLLER": "OFF",  # its libraries are the system's; a wheel carries none
            "Python3_EXECUTABLE": sys.executable,
        }
        if own:
            # Finds PyTorch beside the installed package, wherever that is.
            options["CMAKE_BUILD_WITH_INSTALL_RPATH"] = "ON"
        definitions = [f"-D{name}={value}" for name, value in options.items()]
        subprocess.check_call([cmake(), "-S", str(ROOT), "-B", str(folder), *generator, *definitions])

    def collect(self, built):
        """Puts what was built beside the Python files: in the wheel's folder, or in python/switchml for --inplace."""
        package = pathlib.Path(self.get_ext_fullpath("switchml._C")).parent
        (package / "bin").mkdir(parents=True, exist_ok=True)
        for path in [*built.glob("_C*.so"), built / "_build_info.py"]:
            shutil.copy2(path, package / path.name)
        shutil.copy2(built / "bin" / "switchml-switchd", package / "bin" / "switchml-switchd")
        self.collect_agent(built.parent / "switchml_agent")

    def collect_agent(self, folder):
        """The description of the API that agents and the planner speak to a controller."""
        agent = pathlib.Path(self.get_ext_fullpath("switchml_agent.any")).parent
        agent.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("switchml_control.*"):
            shutil.copy2(path, agent / path.name)


setup(
    ext_modules=[Extension("switchml._C", sources=[])],
    cmdclass={"build_ext": BuildWithCMake},
    options={"build": {"build_base": "build/python-only"}} if PYTHON_ONLY else {},  # without what was compiled before
)
