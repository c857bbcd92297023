"""Watch: plans anew whenever the topology, the jobs or the switches that can be reached are others than before."""

import os
import time

from .carry import carry_out
from .errors import PlanError
from .replanning import replan
from .table import plan_table

PAUSE = 0.5  # seconds between looks


class Watch:
    """Of one controller. `read(lost)`: the topology without those switches, and the jobs. `say` and `warn` print."""

    def __init__(self, controller, files, read, settings, say, warn):
        self._controller, self._files, self._read, self._settings = controller, files, read, settings
        self._say, self._warn = say, warn
        self._plan, self._told, self._seen, self._trouble = None, {}, None, ""

    def begin(self, plan):
        """With a plan of all switches."""
        self._take(plan)
        self._seen = self._state(())

    def run(self):
        """Never returns."""
        while True:
            time.sleep(PAUSE)
            self.look()

    def look(self):
        """Once. What is wrong is said once, and the plan stays as it was."""
        try:
            self._look()
            self._trouble = ""
        except PlanError as error:
            if str(error) != self._trouble:
                self._warn(str(error))
            self._trouble = str(error)

    def _look(self):
        state = self._state(self._controller.lost())
        if state == self._seen and not self._trouble:  # who was not there may have lost its plans
            return
        self._seen = state
        lost = state[0]
        topology, jobs = self._read(lost)
        self._take(replan(self._plan, topology, jobs, self._settings))
        self._say(f"planned anew, without {', '.join(lost)}" if lost else "planned anew, with all switches")

    def _take(self, plan):
        told = carry_out(plan, self._controller, self._settings.shares)
        there = [set(job.workers) for job, _ in told.values()]
        kept = {one.job.name for one in plan.assignments}
        for name, (job, _) in self._told.items():
            if name not in kept and set(job.workers) not in there:
                self._controller.set_plan(job, [])
        self._plan, self._told = plan, told
        self._say(plan_table(plan))

    def _state(self, lost):
        return lost, tuple(_stamp(file) for file in self._files)


def _stamp(file):
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
