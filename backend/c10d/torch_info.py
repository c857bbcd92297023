"""Prints what CMake needs to know of the PyTorch that this Python has, one KEY=VALUE per line."""

import os
import sysconfig

import torch

root = os.path.dirname(os.path.realpath(torch.__file__))
include = os.path.join(root, "include")
bundled = os.path.isfile(os.path.join(include, "pybind11", "pybind11.h"))
definitions = [f"_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
# Old pybind11 shares types between modules only if these strings are equal.
for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
    value = getattr(torch._C, f"_PYBIND11_{name}", None)
    if value is not None:
        definitions.append(f'PYBIND11_{name}="{value}"')
version = torch.__version__.split("+")[0].split("a")[0].split(".")
print("VERSION=" + ".".join(version[:2]))
print("FULL_VERSION=" + torch.__version__)
print("INCLUDES=" + ";".join([include, os.path.join(include, "torch", "csrc", "api", "include")]))
print("LIBRARY_DIR=" + os.path.join(root, "lib"))
print("DEFINITIONS=" + ";".join(definitions))
print("BUNDLED_PYBIND11=" + ("1" if bundled else "0"))
print("PYTHON_INCLUDE=" + sysconfig.get_path("include"))
print("SUFFIX=" + sysconfig.get_config_var("EXT_SUFFIX"))
