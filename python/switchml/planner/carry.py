"""Gives plans to a running controller: sessions that open from then on go over the planned trees."""

import math

from .errors import PlanError

WEIGHTS = 1000  # the finest that the controller takes
PATIENCE = 10.0  # seconds


def shares_of(topology, assignment):
    """[{"weight", "switches", "switch_of"}] of a job, the fields of the API's PlannedShare. Weights are the rates, to a
    thousandth."""
    weights = [max(1, round(WEIGHTS * share.rate / assignment.rate)) for share in assignment.shares]
    divisor = math.gcd(*weights) if weights else 1
    return [
        {"weight": weight // divisor} | _tree(topology, share.tree, assignment.job.workers)
        for weight, share in zip(weights, assignment.shares)
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


def carry_out(plan, controller, token="", ca=None):
    """Gives the controller at ADDRESS:PORT the shares of all jobs. PlanError: it does not answer, or refuses."""
    try:
        import grpc
        from switchml_agent import api
    except ImportError as error:
        raise PlanError(f"--controller needs grpcio and protobuf: pip install grpcio protobuf ({error})") from error
    with _channel(grpc, controller, ca) as channel:
        stub = api.Stub("Controller", channel)
        for one in plan.assignments:
            try:
                _tell(stub, api, one.job.workers, shares_of(plan.topology, one), token)
            except grpc.RpcError as error:
                raise PlanError(f'controller {controller}: job "{one.job.name}": {error.details()}') from error


def _tell(stub, api, workers, shares, token):
    messages = [api.messages.PlannedShare(**_messages(api, share)) for share in shares]
    request = api.messages.SetPlanRequest(workers=workers, shares=messages)
    stub.SetPlan(request, timeout=PATIENCE, metadata=api.bearer(token))


def _messages(api, share):
    return share | {"switches": [api.messages.PlannedSwitch(**each) for each in share["switches"]]}


def _channel(grpc, address, ca):
    options = [("grpc.enable_http_proxy", 0)]
    if ca is None:
        return grpc.insecure_channel(address, options)
    try:
        root = ca.read_bytes()
    except OSError as error:
        raise PlanError(f"--ca {ca}: cannot be read: {error.strerror}") from error
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root), options)
