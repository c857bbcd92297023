"""Agents: what the controller talks to at a switch that is no program of ours. Needs grpcio, protobuf
and xxhash, not PyTorch.

api                                the control plane's API, for agents and for its clients
service, errors                    the DataPlane service, whatever the switch
frames, control_port               control packets of workers, through the switch
command_line                       what the agents' commands have in common
driver, sessions                   the rules of a driver: idempotence, places, what a session needs
bmv2, program, console             the driver of bmv2's simple_switch
bfrt, bfrt_*                       the driver of Tofino, over BFRuntime
"""
