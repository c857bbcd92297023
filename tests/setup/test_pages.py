"""README and the pages of docs/, as a new user reads them: what they have in blocks of code works, in the order of the
page, in the environment that the page before it made. pages.py has the list."""

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pages
import pytest
from lab import ROOT, build_folder, program

PATIENCE = 300
VENV = pathlib.Path(sys.prefix)
PATH = f"{VENV}/bin{os.pathsep}{os.environ['PATH']}"
# What pages name and CI has not, or only where more is installed.
ELSEWHERE = set(
    "vllm sbatch docker kubectl rdma ibv_devinfo p4c-bm2-ss p4c-barefoot simple_switch bfas spin sysctl sudo".split()
)


def blocks(page):
    """[text]: of the blocks of a page, as much indented as their fences."""
    text = (ROOT / page).read_text()
    found = re.finditer(r"^( *)```\w*\n(.*?)^\1```$", text, re.M | re.S)
    return [re.sub(rf"^{match[1]}", "", match[2], flags=re.M) for match in found]


# Of those that are run here, or compared with what they quote.
ALL = [(page, at) for page in pages.BLOCKS for at, (_, how) in enumerate(pages.BLOCKS[page]) if how.count(" ") == 0]


def test_readme_can_be_read_at_once():
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_readme_has_what_the_quickstart_has():
    mine = [block for block in blocks("README.md") if block.startswith(("import torch", "sudo apt-get"))]
    assert len(mine) == 2 and set(mine) <= set(blocks("docs/quickstart.md"))


def test_what_is_installed_first_has_an_environment_to_go_to():
    """Debian's own Python has no pip, or one that refuses to install beside Debian's packages."""
    words = next(block for block in blocks("docs/quickstart.md") if block.startswith("sudo apt-get")).split()
    at = words.index("venv")
    assert words.index("python3-venv") < at < words.index("pip"), words
    assert f"/{words[at + 1]}/" in (ROOT / ".gitignore").read_text().split(), "else the checkout has changes"


def test_every_block_is_in_the_list():
    folders = ("docs/*.md", "examples/README.md", "tests/*/README.md")
    written = ["README.md", *(str(path.relative_to(ROOT)) for each in folders for path in sorted(ROOT.glob(each)))]
    found = {page: [block.strip() for block in blocks(page)] for page in written}
    for page, texts in found.items():
        known = [first for first, _ in pages.BLOCKS.get(page, [])]
        fits = [text.startswith(first) for text, first in zip(texts, known)]
        assert all(fits) and len(texts) == len(known), (
            f"{page}: block {([*fits, False]).index(False) + 1} of {len(texts)} is not the one of tests/setup/pages.py"
        )


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """page -> a folder of its own, with the environment, and the folders of the source that it names."""
    made = {}

    def place(page):
        if page not in made:
            made[page] = tmp_path_factory.mktemp(pathlib.Path(page).stem)
            for name in ("examples", "backend", "switch_p4", "python", "tests", "docs"):
                (made[page] / name).symlink_to(ROOT / name)
            (made[page] / ".venv").symlink_to(VENV)
        return made[page]

    return place


def run(folder, script, status=0, **environment):
    """Both streams of a script of the page."""
    made = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=made, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    assert done.returncode == status, f"{script}\n{done.stdout}"
    return done.stdout


def uncommented(text):
    return [line for line in (re.sub(r"\s*(//|  #).*", "", line).strip() for line in text.splitlines()) if line]


@pytest.mark.parametrize("page, at", ALL, ids=lambda value: str(value))
def test_a_block_does_what_it_says(page, at, places):
    how, text = pages.BLOCKS[page][at][1], blocks(page)[at]
    if how.startswith("quotes:"):
        lines = iter(uncommented((ROOT / how.partition(":")[2]).read_text()))
        missing = next((line for line in uncommented(text) if line not in lines), "")  # `in` goes on where it was
        assert not missing, f"{how} has no such line: {missing}"
    else:
        globals()[f"do_{how}"](places(page), text)


def test_each_way_to_run_a_block_is_used():
    used = {how for page in pages.BLOCKS.values() for _, how in page if how.isidentifier()}
    assert used == {name.removeprefix("do_") for name in globals() if name.startswith("do_")}


# ---- ways to run a block ----


def do_as_it_is(folder, text):
    assert run(ROOT, text)


def do_script(folder, text):
    """Parts of one script; whatever reads statistics comes after calls."""
    with open(folder / "train.py", "a") as script:
        if text.startswith("import switchml"):
            script.write("model(torch.ones(4, 8)).sum().backward()\n")
        script.write(text)
    if text.startswith("import switchml"):
        printed = run(folder, "torchrun --nproc_per_node 2 train.py")
        assert printed.count("'transport': 'shm'") == 2, printed


def do_job_on_this_host(folder, text):
    run(folder, text)
    for name in ("switchml-switchd", "switchml-plan"):
        shown = run(folder, f". .venv/bin/activate; {name} --help", PATH=os.environ["PATH"])
        assert name in shown, "in the environment"


def do_ranks_by_hand(folder, text):
    """Both hosts are this one."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    port = run(folder, "python -c 'import socket; s = socket.create_server((\"\", 0)); print(s.getsockname()[1])'")
    run(folder, f"{lines[1]} & {lines[0]}; wait $!", MASTER_ADDR="127.0.0.1", MASTER_PORT=port.strip())


def do_options_of_a_group(folder, text):
    rank = "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=0 USE_LIBUV=0"
    run(folder, f"{rank} python -c {shlex.quote('import torch.distributed as dist, switchml' + chr(10) + text)}")


def do_faults(folder, text):
    assert text.strip().partition("=")[2] in run(folder, f"{text.strip()} python -m switchml info")


def do_switch_with_options(folder, text):
    """On an address that this machine has."""
    name, *options = text.replace("192.0.2.1:4800", "127.0.0.1:0").split()
    with subprocess.Popen([shutil.which(name, path=PATH), *options], stdout=subprocess.PIPE, text=True) as switch:
        assert switch.stdout.readline().startswith("listening on 127.0.0.1:")
        switch.terminate()


SEALED = """
import sys, torch, torch.distributed as dist, switchml
dist.init_process_group("switchml")
dist.all_reduce(torch.ones(1))
sys.stdout.write(f"encryption {switchml.stats()['session']['encryption']}\\n")  # In one piece: two ranks say it.
"""


def do_switch_with_a_key(folder, text):
    """On an address that this machine has, whose ranks use it."""
    made, started, used = text.splitlines()
    run(folder, made)
    name, *options = started.replace("192.0.2.1:48879", "127.0.0.1:0").split()
    (folder / "sealed.py").write_text(SEALED)
    command = [shutil.which(name, path=PATH), *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as switch:
        try:
            used = used.replace("192.0.2.1:48879", switch.stdout.readline().split()[-1])
            shown = run(folder, f"{used}; python -m torch.distributed.run --nproc_per_node 2 sealed.py")
        finally:
            switch.terminate()
    assert shown.count("encryption on") == 2, shown


def need_controller():
    if program("switchml-controller") is None:
        pytest.skip("switchml-controller is not built")
    return program("switchml-controller")


def do_topology_file(folder, text):
    (folder / "fabric.yaml").write_text(text)
    (folder / "leaf1.token").write_text("open-sesame-of-leaf1\n")
    run(folder, f"{need_controller()} --topology fabric.yaml --insecure-no-token --check")


def do_topology_mistake(folder, text):
    """The mistake that the message speaks of."""
    before, _, after = (folder / "fabric.yaml").read_text().rpartition("parent: spine")
    (folder / "fabric.yaml").write_text(f"{before}parent: spin{after}")
    shown = run(folder, f"{need_controller()} --topology fabric.yaml --insecure-no-token --check", status=2)
    assert re.sub(r":\d+:", "::", text.strip()) in re.sub(r":\d+:", "::", shown), shown
    (folder / "fabric.yaml").write_text(f"{before}parent: spine{after}")


def do_tokens_file(folder, text):
    (folder / "tokens.yaml").write_text(text)
    run(folder, f"{need_controller()} --topology fabric.yaml --tokens tokens.yaml --check")


def do_certificates(folder, text):
    made, _, rest = text.partition("\nswitchml-controller ... ")
    run(folder, made)
    options = rest.splitlines()[0]
    run(folder, f"{need_controller()} --topology fabric.yaml --insecure-no-token --check {options}")


def own_files(folder):
    for name in ("topology.yaml", "jobs.yaml"):
        shutil.copy(ROOT / "examples/planning" / name, folder)


def do_plan_of_own_files(folder, text):
    """test_wheel.py makes what the first line installs."""
    own_files(folder)
    assert "planned: the least rate is 3G" in run(folder, text.splitlines()[1])


def do_plan_of_the_example(folder, text):
    (folder / "printed").write_text(run(folder, text))
    assert "planned: 3 Gbit/s" in (folder / "planning.svg").read_text()


def do_output_of_the_example(folder, text):
    assert text in (folder / "printed").read_text()


def do_jobs_file(folder, text):
    (folder / "jobs.yaml").write_text(text)
    run(folder, "switchml-plan topology.yaml --jobs jobs.yaml")


def do_jobs_mistake(folder, text):
    (folder / "jobs.yaml").write_text((folder / "jobs.yaml").read_text().replace("root: PS", "root: P "))
    shown = run(folder, "switchml-plan topology.yaml --jobs jobs.yaml", status=2)
    assert text.strip() in shown, shown
    own_files(folder)


def do_planner_in_python(folder, text):
    check = "assert plan.shares(), 'an example that plans'"
    run(folder, f"python -W error::UserWarning -c {shlex.quote(text + check)}")


# ---- commands that are not run: what they name is there ----


def commands():
    """[(page, [word])]: of all blocks of commands."""
    for page, known in pages.BLOCKS.items():
        for (_, how), text in zip(known, blocks(page)):
            if how in (pages.DRAWING, pages.OUTPUT) or how.startswith("quotes:") or "<<" in text:
                continue
            for line in re.sub(r"\\\n", " ", text).splitlines():
                for part in re.split(r" && | & |; ", line.removeprefix("$ ").strip()):
                    yield page, part


WORDS = re.compile(r"^(make|ninja|python3?|torchrun|switchml-[a-z0-9]+(-[a-z]+)?|pip|cmake|sudo|\.?[\w.-]+/[\w./-]+)$")


def simple(part):
    """The words of a command without the variables that are set for it; [] where it is none."""
    try:
        words = shlex.split(part, comments=True)
    except ValueError:  # a line of a program
        return []
    while words and re.match(r"[A-Z_0-9]+=", words[0]):
        words.pop(0)
    return words if words and WORDS.match(words[0]) else []


@functools.cache
def knows(target):
    return subprocess.run(["ninja", "-C", build_folder(), "-t", "query", target], capture_output=True).returncode == 0


def makes(target):
    """Whether the build folder can make it. What `make demo` has made knows no tests."""
    return knows(target) or not knows("unit_base")


def told(words):
    """What is wrong with a command; nothing, if all that it names is there."""
    first, *rest = words
    if first == "make":
        known = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M)
        yield from (f"make has no {word}" for word in rest if re.fullmatch(r"[a-z0-9-]+", word) and word not in known)
    elif first == "ninja":
        yield from (f"ninja has no {target}" for target in rest[2:] if not makes(target))
    elif re.match("build/(tests|backend|benchmarks)/", first):
        if not makes(first.removeprefix("build/")):
            yield f"no {first}"
    elif "/" not in first and first not in ELSEWHERE and not shutil.which(first, path=PATH):
        if not makes(f"backend/controllerd/{first}"):
            yield f"{first} is not on the PATH"
    script = rest[0] if rest and "python" in first else first
    if re.match(r"(tests|benchmarks|examples|backend|switch_p4)/", script):
        yield from options_of(script, rest)
    if rest[:2] == ["-m", "pytest"]:
        paths = [word for word in rest[2:] if word.startswith("tests")]
        yield from (f"no {path}" for path in paths if not (ROOT / path).exists())
        if "-k" in rest:
            name, files = rest[rest.index("-k") + 1], [file for path in paths for file in sources_below(ROOT / path)]
            if name != "soak" and not any(re.search(rf"(def test_\w*|^# |test_)\w*{name}", file) for file in files):
                yield f"no test has {name} in its name"


def sources_below(path):
    return [
        file.read_text() + f"\ntest_{file.stem}" for file in ([path] if path.is_file() else path.rglob("test_*.py"))
    ]


def options_of(script, rest):
    """Options that its sources do not have."""
    path = ROOT / script
    if not path.exists():
        yield f"no {script}"
        return
    folders = [path, ROOT / "benchmarks/common"] if path.is_dir() else [path.parent]
    sources = "".join(file.read_text() for folder in folders for file in folder.rglob("*.py"))
    named = [word.partition("=")[0] for word in rest if word.startswith("--")]
    yield from (f"{script} has no {name}" for name in named if name[2:] not in sources)


def test_commands_name_what_is_there():
    checked, wrong = 0, []
    for page, part in commands():
        words = simple(part)
        checked += bool(words)
        wrong += [f"{page}: {part}: {why}" for why in (told(words) if words else ())]
    assert checked > 100, checked
    assert not wrong, "\n".join(wrong)
