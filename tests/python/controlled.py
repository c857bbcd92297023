"""A switch, or several, and the controller that runs them, for tests of ranks; what such switches add are integers."""

import contextlib
import pathlib
import tempfile

import lab

#: Why there is none here, or nothing.
MISSING = (
    ""
    if lab.program("switchml-controller")
    else "switchml-controller is not built: docs/controller.md says what it needs"
)
#: One that may have a single job at a time, and one without a limit.
TOKENS = "tokens:\n  - name: team\n    token: open-sesame-of-the-team\n    max_jobs: 1\n  - name: other\n    token: let-the-others-in-too\n"
PLANNER = "  - name: planner\n    token: plans-for-all-of-them\n    plans: true\n"


class Controlled(lab.Lab):
    """Switches and a controller, all on loopback of the test's own namespace unless said otherwise."""

    switch_options = ()  # of every switch, besides

    def switch(self, name, listen="127.0.0.1:0", agent="127.0.0.1:0", namespace=None, integers=False):
        """Starts a software switch with an agent; (agent's address, packets' address)."""
        (self.folder / f"{name}.token").write_text(f"token-of-the-agent-of-{name}\n")
        process = self.start(name, lab.program("switchml-switchd"), "--listen", listen, "--agent", agent,
                             "--agent-token-file", self.folder / f"{name}.token", *["--integers"] * integers,
                             *self.switch_options, namespace=namespace)  # fmt: skip
        served = self.await_line(name, process, "agent on ")
        return served, self.await_line(name, process, "listening on ")

    def controller(self, topology, listen="127.0.0.1:0", namespace=None, tokens=TOKENS + PLANNER, *options):
        (self.folder / "topology.yaml").write_text(topology)
        (self.folder / "tokens.yaml").write_text(tokens)
        process = self.start(
            "controller",
            lab.program("switchml-controller"),
            "--topology",
            self.folder / "topology.yaml",
            "--tokens",
            self.folder / "tokens.yaml",
            "--listen",
            listen,
            *options,
            namespace=namespace,
        )
        return self.await_line("controller", process, "listening on ")


def described(name, agent, address, more=""):
    return f"  - name: {name}\n    agent: {agent}\n    agent_token_file: {name}.token\n    address: {address}\n{more}"


def settings(controller, token="open-sesame-of-the-team", **more):
    """The switches alone add, unless `more` says otherwise."""
    return {"SWITCHML_CONTROLLER": controller, "SWITCHML_CONTROLLER_TOKEN": token, "SWITCHML_TRANSPORT": "udp",
            "SWITCHML_PRECISION": "integer", **more}  # fmt: skip


@contextlib.contextmanager
def one_switch(**more):
    """The settings of ranks that use it. It adds integers only, as a chip does."""
    with tempfile.TemporaryDirectory(prefix="switchml-test-") as folder, Controlled(pathlib.Path(folder)) as network:
        agent, address = network.switch("solo", integers=True)
        yield settings(
            network.controller("switches:\n" + described("solo", agent, address)), "let-the-others-in-too", **more
        )
