"""Agents: what the controller talks to at a switch that is no program of ours. Needs grpcio and protobuf, not PyTorch.

    api                                the control plane's API, for agents and for its clients
    service, errors                    the DataPlane service, whatever the switch
    frames, control_port               control packets of workers, through the switch
    bmv2, program, sessions, console   the driver of bmv2's simple_switch
"""
