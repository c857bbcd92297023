"""A tree of this project beside the one that this file belongs to: the base of a branch, and how it is built."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

from repository import ROOT

PROGRAM = "benchmarks/profile/bench_profile"
PUBLISHED = ("origin/main", "upstream/main")
TAIL = 2000  # characters of a failed command's output that are shown


class NothingToCompare(Exception):
    """There is no base, or it cannot be built here: why. Not the branch's fault."""


class Broken(Exception):
    """The branch does not build or does not run: why."""


def git(*arguments, root=ROOT):
    """The output of a git command, or None where it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def merge_base(root=ROOT):
    """Where HEAD has left the published main."""
    head = git("rev-parse", "--verify", "--quiet", "HEAD", root=root)
    if head is None:
        raise NothingToCompare("this is no git repository, or one without commits")
    for name in PUBLISHED:
        if git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", root=root) is None:
            continue
        found = git("merge-base", "HEAD", name, root=root)
        if found is None:
            raise NothingToCompare(f"no common commit of HEAD and {name} is here (a shallow clone?)")
        if found == head and git("status", "--porcelain", "--untracked-files=no", root=root) == "":
            raise NothingToCompare(f"HEAD is a part of {name}, and nothing is changed")
        return found
    raise NothingToCompare(f"no published main is known here (none of {', '.join(PUBLISHED)})")


def run(command, seconds, **options):
    """(status, output); the status is None if it took too long. Nothing of it survives."""
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, output
        raise


def unpack(revision, folder, root=ROOT):
    """The files of a revision, without git's own. Returns the commit."""
    commit = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", root=root)
    if commit is None:
        raise NothingToCompare(f"--base {revision}: no such commit or folder here")
    archive = folder.with_suffix(".tar")
    status, output = run(["git", "-C", root, "archive", "--format=tar", "-o", archive, commit], 120)
    if status == 0:
        folder.mkdir()
        status, output = run(["tar", "-xf", archive, "-C", folder], 120)
    archive.unlink(missing_ok=True)
    if status != 0:
        raise NothingToCompare(f"--base {revision}: {output[-TAIL:]}")
    return commit


def settings(with_torch, python):
    """As `make setup` builds, without what is not compared, so that the compiler's cache knows most of it."""
    compiler = ["-DCMAKE_CXX_COMPILER=/usr/bin/g++"] if pathlib.Path("/usr/bin/g++").exists() else []
    return [
        "-G",
        "Ninja",
        *compiler,
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        f"-DPython3_EXECUTABLE={python}",
        "-DSWITCHML_BUILD_TESTS=OFF",
        f"-DSWITCHML_BUILD_TORCH={'ON' if with_torch else 'OFF'}",
        "-DSWITCHML_CONTROLLER=OFF",
    ]


def build(tree, folder, targets, end, with_torch, python):
    """None, or what the compiler said (that time is up). end: by the monotonic clock."""

    def attempt(*command):
        status, output = run(command, max(0.0, end - time.monotonic()), env=environment)
        return None if status == 0 else output[-TAIL:] if status is not None else "it takes too long"

    environment = {**os.environ, "CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "true"}
    said = None
    if not (folder / "build.ninja").exists():
        said = attempt("cmake", "-S", tree, "-B", folder, *settings(with_torch, python))
    return said or attempt("ninja", "-C", folder, *targets)


def build_base(tree, targets, end, with_torch, python):
    """The build folder. Measured is by the branch's program where that compiles with the base's code, else by the
    base's own."""
    theirs, ours, kept = tree / "benchmarks" / "profile", ROOT / "benchmarks" / "profile", tree / "profile.kept"
    if not with_torch:
        lists, cmake = tree / "benchmarks" / "CMakeLists.txt", (tree / "benchmarks" / "CMakeLists.txt").read_text()
        if theirs.exists():
            theirs.rename(kept)
        shutil.copytree(ours, theirs, ignore=shutil.ignore_patterns("__pycache__"))
        if "add_subdirectory(profile)" not in cmake:
            lists.write_text(cmake + "add_subdirectory(profile)\n")
        said = build(tree, tree / "build", targets, end, with_torch, python)
        if said is None:
            return tree / "build"
        if not kept.exists():
            raise NothingToCompare(
                f"the base cannot be built with this branch's program, and has none of its own:\n{said}"
            )
        shutil.rmtree(theirs)
        kept.rename(theirs)
    said = build(tree, tree / "build", targets, end, with_torch, python)
    if said is not None:
        raise NothingToCompare(f"the base cannot be built here:\n{said}")
    return tree / "build"


def python_path(tree, build_folder):
    return {
        "PYTHONPATH": os.pathsep.join([str(build_folder / "python"), str(tree / "python")]),
        "SWITCHML_TEST_BUILD": str(build_folder),
    }


def is_tree(text):
    return (pathlib.Path(text) / "backend" / "CMakeLists.txt").is_file()
