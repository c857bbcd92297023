"""The commands of a fresh machine: what they ask for, what they say where something is missing, folders with odd
names."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS_ALONE = ("libgtest-dev", "libgrpc++-dev", "clang", "libbpf-dev", "spin", "python3-pytest")


def run(*command, cwd=ROOT, **environment):
    done = subprocess.run(list(map(str, command)), cwd=cwd, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    return done.returncode, done.stdout


def bare_lib(lines):
    """Runs `lines` after lib.sh, for a user who is not root, on a Debian with nothing installed and without sudo."""
    stubs = """set -euo pipefail; source .ci/lib.sh; id() { echo 1000; }; dpkg-query() { return 1; }
        command() { [ "$2" != sudo ] && builtin command "$@"; }\n"""
    return run("bash", "-c", stubs + lines)


def test_without_sudo_there_is_a_line_for_the_administrator():
    status, text = bare_lib("install_packages g++ cmake")
    assert status == 1 and "apt-get install --no-install-recommends g++ cmake\n" in text, text


def test_what_is_optional_is_told_and_left_out():
    status, text = bare_lib('install_optional "the tests that need it" spin; echo went on')
    assert status == 0 and "going on without the tests that need it: spin" in text and "went on" in text, text


@pytest.mark.parametrize("torch", ("pip", "debian"))
def test_the_package_needs_no_package_of_a_test(torch, tmp_path):
    """The list is that of a machine where nothing is installed: a copy of the scripts, whose lib.sh finds nothing."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    with open(tmp_path / ".ci/lib.sh", "a") as lib:
        lib.write("\ndpkg-query() { return 1; }\n")
    lists = {}
    for scope in ((), ("package",)):
        status, text = run("bash", ".ci/setup.sh", torch, *scope, "list", cwd=tmp_path)
        assert status == 0 and text.startswith("apt-get install --no-install-recommends "), text
        lists[scope] = set(text.split()[3:])
    assert lists["package",] < lists[()] and "libgtest-dev" in lists[()]
    assert "python3-venv" in lists["package",] and not lists["package",] & set(TESTS_ALONE), lists


def test_an_unknown_step_is_an_error():
    status, text = run("bash", ".ci/setup.sh", "pip", "pakage")
    assert status == 1 and "pakage: allowed are package, backend, list, packages, environment and build" in text, text


def test_python_without_headers_is_told_when_configuring(tmp_path):
    """A Python that says that its headers are elsewhere, where there are none."""
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
case "$1" in
*torch_info.py) echo VERSION=2.13; echo FULL_VERSION=2.13.0; echo PYTHON_INCLUDE={tmp_path}/include ;;
*) exec "{sys.executable}" "$@" ;;
esac
""")
    python.chmod(0o755)
    status, text = run(
        "cmake",
        "-S",
        ROOT,
        "-B",
        tmp_path / "build",
        "-G",
        "Ninja",
        f"-DPython3_EXECUTABLE={python}",
        "-DSWITCHML_BUILD_TORCH=ON",
        "-DSWITCHML_BUILD_TESTS=OFF",
        "-DSWITCHML_CONTROLLER=OFF",
    )
    text = " ".join(text.split())
    assert status != 0 and f"no Python.h in {tmp_path}/include" in text and "python3-dev" in text, text


def test_a_path_with_a_blank_and_parentheses(tmp_path):
    """All that is generated, and the set-up's own functions, in such a folder."""
    tree = tmp_path / "a b (c)"
    made = shutil.ignore_patterns(
        ".git", ".venv*", "env", "build", "build-*", "out", "dist", "__pycache__", ".pytest_cache", "pytest-cache-*"
    )
    shutil.copytree(ROOT, tree, ignore=made, ignore_dangling_symlinks=True)
    generated = ["switchml_layout", "switchml_sim_commit"]
    if shutil.which("grpc_cpp_plugin") and shutil.which("protoc") and shutil.which("pkg-config"):
        generated.append("switchml_api_code")
    status, text = run("bash", "-c", f"""set -euo pipefail; source .ci/lib.sh; clean_environment
        configure_and_build "$root/build" -DSWITCHML_BUILD_BENCHMARKS=OFF "-DPython3_EXECUTABLE={sys.executable}" \\
            -- {" ".join(generated)}""", cwd=tree)  # fmt: skip
    assert status == 0 and (tree / "build/generated/wire/layout.h").exists(), text
    status, text = run("make", cwd=tree)
    assert status == 0 and "demo" in text, text


def faults():
    """tests/netlab/faults.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("faults_of_netlab", ROOT / "tests/netlab/faults.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("names, chosen", (
    ((), None),
    (("clang-14", "clang-19", "clang-9", "clang-format-20", "clang-cpp-21"), "clang-19"),
    (("clang", "clang-19"), "clang"),
))  # fmt: skip
def test_clang_is_looked_for_whatever_its_version(tmp_path, monkeypatch, names, chosen):
    for name in names:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.syspath_prepend(ROOT / "tests")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert faults().clang() == (str(tmp_path / chosen) if chosen else None)
