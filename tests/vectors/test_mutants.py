"""A vector must find every switch that is wrong in one thing."""

import pytest

from vectors import parse, runner, wrong_exact_switches  # noqa: F401  which adds to WrongSwitch.found_by
from vectors.targets import model
from vectors.wire import ROOT
from vectors.wrong_switches import WrongSwitch


@pytest.mark.parametrize("wrong", WrongSwitch.found_by, ids=lambda wrong: wrong.__name__)
def test_a_wrong_switch_is_found(wrong):
    vector = parse.load(ROOT / f"tests/vectors/{WrongSwitch.found_by[wrong]}.txt")
    runner.Runner(model.ModelTarget()).run(vector)  # the model itself passes
    with pytest.raises(runner.VectorFailure, match=rf"{vector.name}\.txt:\d+: "):
        runner.Runner(model.ModelTarget(wrong)).run(vector)
