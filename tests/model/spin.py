"""Runs Spin on a model of this folder: the verifier is generated, compiled and run, and its answer read."""

import dataclasses
import pathlib
import re
import shutil
import subprocess

FOLDER = pathlib.Path(__file__).parent
TOOLS = ("spin", "gcc")
MEMORY_MIB = 3500
DEPTH = 2_000_000
SECONDS = 1800  # far more than a tool needs: a busy machine has held a compiler of one second up for minutes


class SpinError(Exception):
    """A model that cannot be generated, compiled or searched; the message holds what the tool said."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a search found."""

    holds: bool
    states: int
    unreached: frozenset  # "FILE:LINE" of statements that no path reaches
    text: str


def missing():
    """The tools that are not here."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def run(command, folder):
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise SpinError(f"{' '.join(command)}: not done within {SECONDS} s") from error


def checked(command, folder):
    done = run(command, folder)
    if done.returncode != 0:
        raise SpinError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


class Verifier:
    """One model with one choice of its parameters, compiled in `folder`; checks its properties, several at a time if
    asked to."""

    def __init__(self, folder, model, parameters, cycles):
        """`cycles`: for properties that say that something happens in the end, under weak fairness."""
        self.folder, self.cycles = folder, cycles
        folder.mkdir(parents=True, exist_ok=True)
        defines = [f"-D{name}={value}" for name, value in parameters.items()]
        checked(["spin", "-a", *defines, str(FOLDER / model)], folder)
        # NFAIR: room for the fairness of up to 4 * 8 - 2 processes.
        kind = ["-DNFAIR=4"] if cycles else ["-DSAFETY"]
        checked(["gcc", "-O1", "-w", f"-DMEMLIM={MEMORY_MIB}", *kind, "-o", "pan", "pan.c"], folder)

    def check(self, name):
        # A property of safety is an assertion in the claim: found without the search for cycles that Spin recommends.
        search = ["-a", "-f"] if self.cycles else []
        return read(run(["./pan", f"-m{DEPTH}", *search, "-N", name], self.folder))


def read(done):
    """The answer of a verifier that has ended. A search that was cut short without an error found is a SpinError."""
    text = done.stdout + done.stderr
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    if done.returncode < 0 or not errors or not states:
        raise SpinError(f"the verifier has not ended as it should (status {done.returncode})\n{text[-2000:]}")
    holds = int(errors.group(1)) == 0
    for sign in ("max search depth too small", "Search not completed", "out of memory", "VECTORSZ"):
        if holds and sign in text:
            raise SpinError(f"the search is not exhaustive: {sign}\n{text[-2000:]}")
    if holds and "Full statespace search" not in text:
        raise SpinError(f"the search is not exhaustive\n{text[-2000:]}")
    return Answer(holds, int(states.group(1)), frozenset(unreached(text)), text)


def unreached(text):
    """Where statements are that were never executed, but for the ends of processes that go on for ever, and of
    claims."""
    here = re.compile(r"^\s+(\S+\.pml):(\d+), state \d+, \"(.*)\"$", re.MULTILINE)
    return {f"{pathlib.Path(path).name}:{line}" for path, line, what in here.findall(text) if what != "-end-"}
