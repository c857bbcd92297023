"""The slot protocol, searched exhaustively by Spin: every property holds, and a protocol that is wrong in one thing
breaks one."""

import os
import pathlib
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import spin

pytestmark = pytest.mark.skipif(
    bool(spin.missing()), reason=f"needs {', '.join(spin.missing())} (apt-get install spin gcc)"
)

SAFETY = ("exact", "once", "isolated", "answerable")

# name: model, properties, parameters, and the least number of states (a model that has lost its behaviour has fewer).
MODELS = {
    "2 workers": ("any_order.pml", SAFETY, "WORKERS=2", 48),
    "2 workers from the first number on": ("any_order.pml", SAFETY, "WORKERS=2 FIRST=1", 48),
    "3 workers, 2 slots": ("any_order.pml", SAFETY, "WORKERS=3 SLOTS=2", 20000),
    "2 workers, 2 slots, 2 sessions": ("any_order.pml", SAFETY, "WORKERS=2 SLOTS=2 SESSIONS=2 USES=3 FIRST=14", 10000),
    "3 workers, 2 sessions": ("any_order.pml", SAFETY, "WORKERS=3 SESSIONS=2", 8000),
    "tree, 2 workers, 2 slots": ("any_order.pml", SAFETY, "WORKERS=2 SLOTS=2 TREE=1", 7000),
    "tree, 4 workers": ("any_order.pml", SAFETY, "WORKERS=4 TREE=1", 500),
    "tree, 2 workers, 2 sessions": ("any_order.pml", SAFETY, "WORKERS=2 SESSIONS=2 TREE=1", 1000),
    "exact, 3 workers": ("any_order.pml", SAFETY, "WORKERS=3 EXACT=1", 1000),
    "exact, a trial, 3 workers": ("any_order.pml", SAFETY, "WORKERS=3 EXACT=1 TRIAL=1", 9000),
    "exact, a trial, 2 sessions": (
        "any_order.pml",
        SAFETY,
        "WORKERS=2 EXACT=1 TRIAL=1 SESSIONS=2 USES=3 FIRST=14",
        30000,
    ),
    "exact, what is late is kept, no trial": ("any_order.pml", SAFETY, "WORKERS=3 EXACT=1 BUG_OVERTAKEN_KEPT=1", 1000),
    "a trial, 2 workers": ("any_order.pml", SAFETY, "WORKERS=2 TRIAL=1", 200),
    "channels, exact": (
        "channels.pml",
        ("finishes", "exact"),
        "WORKERS=2 EXACT=1 USES=4 FIRST=14 LOSSES=1 COPIES=0",
        100000,
    ),
    "channels, 2 losses": ("channels.pml", ("finishes", "exact"), "WORKERS=2 LOSSES=2 COPIES=0", 100000),
    "channels, copies": ("channels.pml", ("finishes", "exact"), "WORKERS=2 USES=4 FIRST=14 LOSSES=1", 50000),
    "channels, 3 workers": ("channels.pml", ("finishes",), "WORKERS=3 USES=2 LOSSES=1 COPIES=0 SWAPS=0", 100000),
    "channels, tree": (
        "channels.pml",
        ("finishes",),
        "WORKERS=2 USES=2 LOSSES=1 COPIES=0 SWAPS=0 ROOM=1 TREE=1",
        100000,
    ),
}
MODELS = {
    name: (model, properties, {key: int(value) for key, value in (one.split("=") for one in parameters.split())}, least)
    for name, (model, properties, parameters, least) in MODELS.items()
}

TWO, THREE, RESTARTED, TREE = {"WORKERS": 2}, {"WORKERS": 3}, {"WORKERS": 2, "SESSIONS": 2}, {"WORKERS": 4, "TREE": 1}
EXACT = {"WORKERS": 2, "EXACT": 1}
SHORT = {"WORKERS": 2, "USES": 3, "LOSSES": 1, "COPIES": 0, "SWAPS": 0}
WRAPS = SHORT | {"FIRST": 14}
SHORT_TREE = SHORT | {"TREE": 1, "ROOM": 1, "USES": 2}

# What is wrong, on what it shows, and the property that it breaks.
BUGS = [
    ("BUG_NO_STALE_CHECK", "any_order.pml", TWO, "answerable"),
    ("BUG_ADD_ON_NEW", "any_order.pml", TWO, "exact"),
    ("BUG_DUPLICATE_ADDED", "any_order.pml", TWO, "exact"),
    ("BUG_INCOMPLETE_ANSWERED", "any_order.pml", TWO, "exact"),
    ("BUG_COMPLETE_TOO_EARLY", "any_order.pml", TWO, "exact"),
    ("BUG_ONE_VERSION", "any_order.pml", TWO, "answerable"),
    ("BUG_PARITY_LOST", "any_order.pml", TWO, "answerable"),
    ("BUG_SMALL_MODULUS", "channels.pml", SHORT | {"FIRST": 4, "USES": 5}, "finishes"),
    ("BUG_RESTARTED_SEQUENCE", "any_order.pml", TWO, "exact"),
    ("BUG_OLD_SESSION_TAKEN", "any_order.pml", RESTARTED, "isolated"),
    ("BUG_HELD_EPOCH_IGNORED", "any_order.pml", RESTARTED, "exact"),
    ("BUG_USE_OPENED_EARLY", "any_order.pml", TWO, "answerable"),
    ("BUG_USE_OPENED_EARLY", "any_order.pml", EXACT, "answerable"),
    ("BUG_OVERTAKEN_KEPT", "any_order.pml", EXACT | {"TRIAL": 1}, "exact"),
    ("BUG_ACCEPTED_WITHOUT_WAITING", "any_order.pml", TWO, "once"),
    ("BUG_WORKER_IGNORES_SEQUENCE", "any_order.pml", TWO, "exact"),
    ("BUG_WORKER_IGNORES_EPOCH", "any_order.pml", RESTARTED, "exact"),
    ("BUG_LEAF_ANSWERS", "any_order.pml", TREE, "exact"),
    ("BUG_DUPLICATE_NOT_ANSWERED", "channels.pml", SHORT, "finishes"),
    ("BUG_NEVER_AGAIN", "channels.pml", SHORT, "finishes"),
    ("BUG_UNSIGNED_COMPARISON", "channels.pml", WRAPS, "finishes"),
    ("BUG_HELD_EPOCH_IGNORED", "channels.pml", SHORT, "finishes"),
    ("BUG_AGGREGATE_NOT_REPEATED", "channels.pml", SHORT_TREE, "finishes"),
]


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Searches for a property; what was compiled or found before serves again. Threads may search for several at a
    time."""
    made, found, compiling = {}, {}, threading.Lock()

    def search(model, parameters, wanted):
        cycles = wanted == "finishes"
        verifier = model, tuple(sorted(parameters.items())), cycles
        with compiling:
            if verifier not in made:
                made[verifier] = spin.Verifier(tmp_path_factory.mktemp("model"), model, parameters, cycles)
        if (verifier, wanted) not in found:
            found[verifier, wanted] = made[verifier].check(wanted)
        return found[verifier, wanted]

    return search


@pytest.mark.parametrize("name", MODELS)
def test_properties_hold(name, check):
    model, properties, parameters, least = MODELS[name]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda wanted: check(model, parameters, wanted), properties))
    for wanted, answer in zip(properties, answers):
        assert answer.holds, f"{name}: {wanted} does not hold\n{answer.text}"
        assert answer.states >= least, f"{name}: {wanted}: only {answer.states} states\n{answer.text}"


@pytest.mark.parametrize("bug, model, parameters, broken", BUGS, ids=[f"{bug[0]}-{bug[3]}" for bug in BUGS])
def test_a_wrong_protocol_is_found(bug, model, parameters, broken, check):
    right = check(model, parameters, broken)
    assert right.holds, right.text
    wrong = check(model, parameters | {bug: 1}, broken)
    assert not wrong.holds, wrong.text


def test_every_bug_of_the_models_is_tried():
    text = "".join(path.read_text() for path in spin.FOLDER.glob("*.pml"))
    assert set(re.findall(r"\bBUG_[A-Z_]+", text)) == {bug for bug, _, _, _ in BUGS}


def test_no_statement_is_out_of_reach(check):
    """Statements that no model executes would be verified by nobody."""
    answers = {model: [] for model, _, _, _ in MODELS.values()}
    for model, properties, parameters, _ in MODELS.values():
        answers[model] += [check(model, parameters, wanted).unreached for wanted in properties]
    for model, found in answers.items():
        assert not frozenset.intersection(*found), model


def test_a_search_that_was_cut_short_is_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(spin, "DEPTH", 50)
    with pytest.raises(spin.SpinError, match="max search depth too small"):
        spin.Verifier(tmp_path, "any_order.pml", {"WORKERS": 2}, cycles=False).check("exact")
