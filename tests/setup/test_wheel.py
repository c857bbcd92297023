"""Wheels: what they carry, where they load, and what is said where they do not."""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
from lab import ROOT, build_folder

BUILD = build_folder()
TORCH = BUILD.name.removeprefix("build").removeprefix("-") or "pip"
# What every Linux with glibc that runs PyTorch has, by the rules of manylinux.
SYSTEM = set("libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libgcc_s.so.1 libstdc++.so.6 libz.so.1".split())
LOADER = re.compile(r"ld-linux-.*\.so\.\d")


def run(*command, **environment):
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env={**os.environ, **environment}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    return done.returncode, done.stdout


def unpack(folder):
    (wheel,) = folder.glob("*.whl")
    to = folder / "unpacked"
    with zipfile.ZipFile(wheel) as packed:
        for each in packed.infolist():
            made = pathlib.Path(packed.extract(each, to))
            made.chmod(each.external_attr >> 16 & 0o777 or 0o644)
    return to


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What is built is packed: it need not be compiled once more."""
    if TORCH == "debian" or not (BUILD / "CMakeCache.txt").exists():
        pytest.skip("wheels for Debian's PyTorch need Debian's libraries" if TORCH == "debian" else f"no {BUILD}")
    folder = tmp_path_factory.mktemp("wheel")
    status, text = run(".ci/wheel.sh", TORCH, folder, SWITCHML_BUILD_DIR=BUILD)
    assert status == 0, text
    return unpack(folder)


def needed(path):
    text = subprocess.run(["objdump", "-p", str(path)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^\s*NEEDED\s+(\S+)", text, re.M))


def test_a_wheel_carries_what_it_needs(wheel):
    import torch

    compiled = [path for path in wheel.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    torch_has = {path.name for path in (pathlib.Path(torch.__file__).parent / "lib").iterdir()}
    carried = {path.name for path in compiled}
    assert {"switchml-switchd"} < carried and any(name.startswith("libglog") for name in carried)
    for path in compiled:
        lacking = {name for name in needed(path) - SYSTEM - torch_has - carried if not LOADER.fullmatch(name)}
        assert not lacking, f"{path.relative_to(wheel)} needs {lacking}"


LOADS = "import switchml; print(len(switchml.settings()), switchml._registration._extension().__file__)"


def without_glog(*command, folder):
    """Runs it where Debian's libraries of glog are no libraries."""
    here = [
        path for name in ("glog", "gflags", "unwind") for path in pathlib.Path("/usr/lib").glob(f"*/lib{name}.so.*")
    ]
    script = "".join(f"mount --bind /dev/null '{path.resolve()}' && " for path in here) + 'exec "$@"'
    return run("unshare", "--mount", "sh", "-c", script, "sh", *command, PYTHONPATH=folder)


@pytest.fixture
def mounts():
    status, text = run("unshare", "--mount", "sh", "-c", "mount --bind /dev/null /etc/hostname")
    if status != 0:
        pytest.skip(f"no mount namespaces here: {text.strip()}")


def test_a_wheel_loads_where_debians_libraries_are_missing(wheel, mounts):
    status, text = without_glog(sys.executable, "-c", LOADS, folder=wheel)
    assert status == 0 and str(wheel) in text, text
    status, text = without_glog(wheel / "switchml/bin/switchml-switchd", "--version", folder=wheel)
    assert status == 0, text


@pytest.mark.parametrize("command, status", (("info", 1), ("doctor", 1), ("bench", 1)))
def test_a_library_that_is_missing_is_named(mounts, command, status):
    found, text = without_glog(sys.executable, "-m", "switchml", command, folder=BUILD / "python")
    assert found == status and "Traceback" not in text, text
    assert "libglog.so" in text and "apt-get install libgoogle-glog-dev" in text and "make wheel" in text, text
    assert command != "doctor" or re.search(r"^FAIL .*libglog.*\n +-> install libglog", text, re.M), text


def test_the_planner_installs_without_pytorch_and_compiler(tmp_path):
    command = ("-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path, ROOT)
    status, text = run(sys.executable, *command, SWITCHML_PYTHON_ONLY="1", PATH="/nowhere")
    assert status == 0, text
    folder = unpack(tmp_path)
    assert not list(folder.rglob("*.so")) and (folder / "switchml_agent/switchml_control.proto").exists()
    program = "import sys; sys.modules['torch'] = None; import _switchml_entry; sys.exit(_switchml_entry.plan())"
    example = ROOT / "examples/planning"
    status, text = run(sys.executable, "-c", program, example / "topology.yaml", "--jobs", example / "jobs.yaml",
                       PYTHONPATH=folder)  # fmt: skip
    assert status == 0 and text.startswith("planned: the least rate is 3G"), text


def test_other_systems_are_refused_in_one_line():
    program = "import platform, runpy, sys; platform.system = lambda: 'Darwin'; sys.argv = ['setup.py', 'build_ext']; "
    status, text = run(sys.executable, "-c", program + "runpy.run_path('setup.py', run_name='__main__')")
    assert status == 1 and text.splitlines()[-1].startswith("switchml: Darwin on "), text
    assert "allowed is Linux" in text and "Traceback" not in text
