"""Tokens are in no text: of options, errors, tracebacks, logs, commands and pickles."""

import copy
import os
import pickle
import subprocess
import sys
import traceback

import pytest
import switchml
import torch.distributed as dist

VALUE = "s3cret-t0ken"
SECRET = [setting["name"] for setting in switchml.settings() if setting["secret"]]


def told(error):
    """All that a traceback can show of an exception, variables too."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def error_of(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_what_is_called_a_token_is_secret():
    assert SECRET and SECRET == [name for name in map(lambda each: each["name"], switchml.settings())
                                 if "token" in name and not name.endswith("_file")]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_options(name):
    options = switchml.Options(**{name: VALUE, "slots": 64})
    for shown in (repr(options), str(options), repr(options.values), f"{vars(options)}"):
        assert VALUE not in shown and "(hidden)" in shown and "64" in shown
    for same in (copy.copy(options), copy.deepcopy(options), switchml.Options(**options.values)):
        assert same == options and same.values[name] == VALUE and VALUE not in repr(same)
    assert options != switchml.Options(**{name: VALUE + "x", "slots": 64})
    error = error_of(lambda: pickle.dumps(options))
    assert "controller_token_file" in str(error) and VALUE not in told(error)
    assert pickle.loads(pickle.dumps(switchml.Options(slots=64))) == switchml.Options(slots=64)


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize(
    "wrong", ({"slots": 1}, {"no_such": 1}, {"controller_token_file": "a file"}, {"": VALUE + " "})
)
def test_errors(name, wrong):
    values = {name: VALUE, **{other or name: value for other, value in wrong.items()}}

    def group_of(options):
        return switchml.ProcessGroup(dist.HashStore(), 0, 1, options=options)

    for function in (lambda: switchml.Options(**values), lambda: group_of(values)):
        error = error_of(function)
        assert isinstance(error, ValueError) and VALUE not in str(error)
    options = switchml.Options(**{name: VALUE})
    for function in (
        lambda: switchml.ProcessGroup("no store", 0, 1, options=options),
        lambda: switchml.ProcessGroup(dist.HashStore(), 5, 1, options=options),
    ):
        assert VALUE not in told(error_of(function))


@pytest.mark.parametrize("name", SECRET)
def test_other_names(name):
    """As variables are written, and misspelt."""
    assert VALUE not in repr(switchml.Options(**{"SWITCHML_" + name.upper(): VALUE}))
    for wrong in ({name[1:]: 0}, {name: 0, "slots": 1}):
        error = error_of(lambda: switchml.Options(**{each: value or VALUE for each, value in wrong.items()}))
        frames = traceback.walk_tb(error.__traceback__)
        shown = [repr(frame.f_locals) for frame, _ in frames if frame.f_code.co_filename != __file__]
        assert shown and VALUE not in "".join(shown), shown


GROUP = """
import sys, threading, traceback, torch.distributed as dist, switchml
from switchml import _controller
name, value = sys.argv[1:]
options = switchml.Options(**{name: value, "log_level": "debug"})
dist.init_process_group("switchml", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
print(switchml.stats(), dist.group.WORLD)
dist.destroy_process_group()

def interrupted(messages, stub, question, options):
    raise KeyboardInterrupt  # users see its traceback, as of no other error there

_controller._CALLS["locate"] = interrupted
sys.excepthook = lambda kind, error, stack: print("".join(
    traceback.TracebackException(kind, error, stack, capture_locals=True).format()))
del value, sys.argv[1:]
store, options = dist.HashStore(), switchml.Options(controller="127.0.0.1:9", **options.values)
threading.Thread(target=lambda: switchml.ProcessGroup(store, 1, 2, options=options)).start()
switchml.ProcessGroup(store, 0, 2, options=options)
"""


def shown_by(*command, **environment):
    """All that a program writes."""
    done = subprocess.run([sys.executable, *command], env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=120)  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", SECRET)
def test_programs(name):
    variable = "SWITCHML_" + name.upper()
    text = shown_by("-m", "switchml", "info", **{variable: VALUE})
    assert VALUE not in text and "(hidden)" in text
    wrong = shown_by("-m", "switchml", "info", "--json", **{variable: VALUE + " "})
    assert VALUE not in wrong and f"{variable}=" in wrong
    pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio")
    text = shown_by("-c", GROUP, name, VALUE, SWITCHML_INTERFACE="lo")
    assert VALUE not in text and "KeyboardInterrupt" in text and "(hidden)" in text, text
