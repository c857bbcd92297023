"""benchmarks/compare: which base it takes, how it takes turns, and what it does where there is nothing to compare
with."""

import json
import pathlib
import subprocess
import sys
import time

from benchmark_tools import BENCHMARKS

import branch
import pytest
import trees


def git(folder, *arguments):
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True, timeout=60)


def commit(folder, text):
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-m", text)
    return trees.git("rev-parse", "HEAD", root=folder)


@pytest.fixture
def published(tmp_path):
    """A repository with a main of two commits, and a clone of it."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init")
    commit(origin, "one")
    commit(origin, "two")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    return origin, tmp_path / "clone"


# ---- the base ----


def test_the_base_is_where_the_branch_left_the_published_main(published):
    origin, clone = published
    base = trees.git("rev-parse", "HEAD", root=clone)
    git(clone, "switch", "-q", "-c", "branch")
    commit(clone, "mine")
    commit(origin, "theirs")
    git(clone, "fetch", "-q")
    assert trees.merge_base(clone) == base


def test_changes_that_are_not_committed_are_compared_with_main(published):
    _, clone = published
    (clone / "file").write_text("changed")
    assert trees.merge_base(clone) == trees.git("rev-parse", "HEAD", root=clone)


def test_main_itself_has_nothing_to_be_compared_with(published):
    with pytest.raises(trees.NothingToCompare, match="HEAD is a part of origin/main"):
        trees.merge_base(published[1])


def test_a_repository_without_a_published_main_has_no_base(published):
    with pytest.raises(trees.NothingToCompare, match="no published main"):
        trees.merge_base(published[0])


def test_a_shallow_clone_without_the_common_commit_has_no_base(published, tmp_path):
    origin, clone = published
    git(clone, "switch", "-q", "-c", "branch")
    commit(clone, "mine")
    git(clone, "push", "-q", "origin", "branch")
    commit(origin, "theirs")
    git(
        tmp_path,
        "clone",
        "-q",
        "--depth",
        "1",
        "--no-single-branch",
        "--branch",
        "branch",
        f"file://{origin}",
        "shallow",
    )
    with pytest.raises(trees.NothingToCompare, match="shallow"):
        trees.merge_base(tmp_path / "shallow")


def test_a_folder_without_git_has_no_base(tmp_path):
    with pytest.raises(trees.NothingToCompare, match="no git repository"):
        trees.merge_base(tmp_path)


def test_a_revision_is_unpacked_as_it_was(published, tmp_path):
    _, clone = published
    first = trees.git("rev-parse", "HEAD~1", root=clone)
    assert trees.unpack("HEAD~1", tmp_path / "base", clone) == first
    assert (tmp_path / "base" / "file").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir() if "tar" in path.name] == []


def test_a_revision_that_does_not_exist_is_nothing_to_compare_with(published, tmp_path):
    with pytest.raises(trees.NothingToCompare, match="--base nosuch: no such commit"):
        trees.unpack("nosuch", tmp_path / "base", published[1])


def test_the_program_says_so_and_ends_well():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "compare", "--base", "no-such-revision"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "nothing is compared: --base no-such-revision" in done.stdout


# ---- building ----


def fake_tree(folder):
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "CMakeLists.txt").write_text("")
    return folder


def test_a_base_that_lacks_the_program_gets_the_branchs(tmp_path, monkeypatch):
    tree = fake_tree(tmp_path / "base")
    monkeypatch.setattr(trees, "build", lambda *_: None)
    assert trees.build_base(tree, ["bench_profile"], 1, False, sys.executable) == tree / "build"
    assert (tree / "benchmarks" / "profile" / "main.cc").exists()
    assert "add_subdirectory(profile)" in (tree / "benchmarks" / "CMakeLists.txt").read_text()


def test_a_base_with_other_interfaces_is_measured_by_its_own_program(tmp_path, monkeypatch):
    tree = fake_tree(tmp_path / "base")
    (tree / "benchmarks" / "profile").mkdir()
    (tree / "benchmarks" / "profile" / "main.cc").write_text("its own")
    compiles = lambda tree, *_: (
        None if (tree / "benchmarks" / "profile" / "main.cc").read_text() == "its own" else "error"
    )
    monkeypatch.setattr(trees, "build", compiles)
    assert trees.build_base(tree, ["bench_profile"], 1, False, sys.executable) == tree / "build"


def test_a_base_that_cannot_be_built_is_nothing_to_compare_with(tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "build", lambda *_: "no compiler")
    with pytest.raises(trees.NothingToCompare, match="no compiler"):
        trees.build_base(fake_tree(tmp_path / "base"), ["bench_profile"], 1, False, sys.executable)


def test_a_build_has_one_end_for_all_its_steps(tmp_path, monkeypatch):
    """Configured at the last moment, it may not compile as long once more."""
    given = []

    def run(command, seconds, **_):
        given.append((command[0], seconds))
        return (0, "") if command[0] == "cmake" else (None, "")

    monkeypatch.setattr(trees, "run", run)
    assert (
        trees.build(tmp_path, tmp_path / "build", ["all"], time.monotonic() - 1, False, sys.executable)
        == "it takes too long"
    )
    assert given == [("cmake", 0.0), ("ninja", 0.0)]


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path):
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    for seconds in (1, 10, 60):  # a busy machine may take long to begin
        status, _ = trees.run(["bash", "-c", script], seconds)
        assert status is None
        if (tmp_path / "pid").exists():
            break
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(child)


def running(pid):
    """A zombie that nobody reaps here does not count."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# ---- turns ----


def test_sides_take_turns_and_the_first_one_changes():
    order = []

    def measure(side, case):
        order.append((case, side))
        return {case: 1.0 + side}

    assert branch.in_turns(["a", "b"], measure, 2, 1000) == [{"a": (1.0, 2.0), "b": (1.0, 2.0)}] * 2
    assert order == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 1), ("a", 0), ("b", 1), ("b", 0)]


def test_no_round_begins_when_time_is_over(capsys):
    assert len(branch.in_turns([None], lambda side, _: {"case": 1.0}, 5, -1)) == 1
    assert "1 rounds of 5" in capsys.readouterr().out


def test_a_machine_that_slows_down_does_not_make_a_ratio():
    """The branch takes a tenth longer in every round; the machine gets ten times slower meanwhile."""
    rounds = [{"case": (slow, 1.1 * slow)} for slow in (1, 2, 4, 7, 10)]
    base, ours, ratio, lowest, highest = branch.summary(rounds)["case"]
    assert (base, ours) == (4, 4.4) and ratio == lowest == highest == pytest.approx(1.1)


def test_one_disturbed_round_does_not_count():
    rounds = [{"case": (1.0, 1.0)}] * 4 + [{"case": (1.0, 30.0)}]
    assert branch.summary(rounds)["case"][2] == 1.0


def program(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_wrong_result_of_the_branch_is_an_error_and_of_the_base_is_not(tmp_path):
    wrong = program(tmp_path, "wrong", "raise SystemExit('element 3 is 1 instead of 2')")
    with pytest.raises(trees.Broken, match="element 3"):
        branch.answer_of([wrong], "branch")
    with pytest.raises(trees.NothingToCompare, match="element 3"):
        branch.answer_of([wrong], "base")


def test_a_broken_branch_is_the_status(monkeypatch, capsys):
    def broken(*_):
        raise trees.Broken("does not build")

    monkeypatch.setattr(branch, "prepare_base", lambda *_: ("tree", "build", "base"))
    monkeypatch.setattr(branch, "prepare_branch", broken)
    assert branch.compare(type("Arguments", (), {"what": "core", "build_limit": 1})()) == 1
    assert "does not build" in capsys.readouterr().err


# ---- two files ----


def result(path, seconds):
    rows = [{"bytes": 4096, "seconds": {"switchml": [seconds] * 5}, "payload": 1024}]
    path.write_text(json.dumps({"runs": [{"ranks": 2, "rows": rows}]}))
    return path


@pytest.mark.parametrize("worse, status", [("1.2", 0), ("1.05", 1)])
def test_two_files(tmp_path, worse, status):
    command = [
        sys.executable,
        BENCHMARKS / "compare",
        result(tmp_path / "old", 0.010),
        result(tmp_path / "new", 0.011),
        "--worse",
        worse,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == status and "1.10" in done.stdout
