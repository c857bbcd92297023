"""Gives plans to a running controller: groups that open from then on go over the planned trees, and those that can
move go there."""

import math

from .errors import PlanError

WEIGHTS = 1000  # the finest that the controller takes
PATIENCE = 10.0  # seconds


def shares_of(topology, assignment, exactly=None):
    """[{"weight", "switches", "switch_of"}] of a job, the fields of the API's PlannedShare. Weights are the rates, to a
    thousandth. `exactly`: so many shares, some with the same tree where the plan has fewer."""
    parts = [(share.rate, share.tree) for share in assignment.shares]
    while exactly and parts and len(parts) < exactly:
        largest = max(range(len(parts)), key=lambda number: parts[number][0])
        rate, tree = parts.pop(largest)
        parts[largest:largest] = [(rate / 2, tree)] * 2
    weights = [max(1, round(WEIGHTS * rate / assignment.rate)) for rate, _ in parts]
    divisor = math.gcd(*weights) if weights else 1
    return [
        {"weight": weight // divisor} | _tree(topology, tree, assignment.job.workers)
        for weight, (_, tree) in zip(weights, parts)
    ]


def _tree(topology, tree, workers):
    switches = [{"name": tree.root}]
    for parent in switches:  # grows: parents come before children
        for child, route in tree.routes.items():
            if route[-1] == parent["name"] and child not in workers:
                switches.append({"name": child, "parent": route[-1]} | _ports(topology, route))
    return {"switches": switches, "switch_of": {worker: tree.parent(worker) for worker in workers}}


def _ports(topology, route):
    """Of the child towards its parent and back; routes through other switches begin and end there, too."""
    return {"parent_port": _port(topology, route[0], route[1]), "port_at_parent": _port(topology, route[-1], route[-2])}


def _port(topology, at, towards):
    link = topology.link(at, towards)
    return link.ports[link.ends.index(at)]


class Controller:
    """The one at ADDRESS:PORT, to be closed. Each call is a PlanError where it does not answer, or refuses."""

    def __init__(self, address, token="", ca=None):
        try:
            import grpc
            from switchml_agent import api
        except ImportError as error:
            raise PlanError(f"--controller needs grpcio and protobuf: pip install grpcio protobuf ({error})") from error
        self.address, self._grpc, self._api = address, grpc, api
        self._options = {"timeout": PATIENCE, "metadata": api.bearer(token)}
        self._channel = _channel(grpc, address, ca)
        self._stub = api.Stub("Controller", self._channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()

    def set_plan(self, job, shares):
        """`shares`: of shares_of(); none: the job's groups open by the topology again."""
        messages = [self._api.messages.PlannedShare(**self._fields(share)) for share in shares]
        request = self._api.messages.SetPlanRequest(workers=job.workers, shares=messages)
        self._call("SetPlan", request, f'job "{job.name}": ')

    def lost(self):
        """Names of the switches that it cannot reach, sorted."""
        reply = self._call("Describe", self._api.messages.DescribeRequest())
        return tuple(sorted(switch.name for switch in reply.switches if not switch.connected))

    def _call(self, name, request, what=""):
        try:
            return getattr(self._stub, name)(request, **self._options)
        except self._grpc.RpcError as error:
            raise PlanError(f"controller {self.address}: {what}{error.details()}") from error

    def _fields(self, share):
        return share | {"switches": [self._api.messages.PlannedSwitch(**each) for each in share["switches"]]}


def carry_out(plan, controller, exactly=None):
    """Gives it the shares of all jobs that have some: {name of the job: (job, shares)}."""
    told = {}
    for one in plan.assignments:
        if not one.shares:
            continue
        shares = shares_of(plan.topology, one, exactly)
        controller.set_plan(one.job, shares)
        told[one.job.name] = one.job, shares
    return told


def _channel(grpc, address, ca):
    options = [("grpc.enable_http_proxy", 0)]
    if ca is None:
        return grpc.insecure_channel(address, options)
    try:
        root = ca.read_bytes()
    except OSError as error:
        raise PlanError(f"--ca {ca}: cannot be read: {error.strerror}") from error
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root), options)
