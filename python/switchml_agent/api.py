"""The control plane's API, from switchml_control.proto: messages, and both sides of its services.

    api.messages.OpenRequest(workers=4)           a message
    api.messages.Operation.MAX                    a number of an enum
    api.Stub("Controller", channel).Open(request, timeout=5, metadata=api.bearer(token))
    server.add_generic_rpc_handlers((api.handler("DataPlane", implementation),))

Works with every grpcio and protobuf since Debian 12's (1.51, 3.21): what protoc made of the file at build time is its
description, not code. Where switchml was built without protoc, or runs from its source folder, grpcio-tools reads the
file now.
"""

import pathlib
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FOLDER = pathlib.Path(__file__).resolve().parent
DESCRIPTION = _FOLDER / "switchml_control.binpb"
SOURCES = (_FOLDER / "switchml_control.proto", _FOLDER.parents[1] / "backend/api/switchml_control.proto")


class _Messages:
    """The message classes and enums of the file, as attributes."""


class _Numbers:
    """The numbers of an enum, as attributes."""


def _load():
    """The FileDescriptorProto."""
    description = DESCRIPTION.read_bytes() if DESCRIPTION.exists() else _described_now()
    return descriptor_pb2.FileDescriptorSet.FromString(description).file[0]


def _described_now():
    source = next((path for path in SOURCES if path.exists()), None)
    if source is None:
        raise ImportError(
            f"switchml_control.proto is in none of {', '.join(map(str, SOURCES))}: install switchml again"
        )
    try:
        from grpc_tools import protoc
    except ImportError:
        raise ImportError(
            "switchml was built without protoc: pip install grpcio-tools, or install protobuf-compiler and build it again"
        ) from None
    with tempfile.NamedTemporaryFile(suffix=".binpb") as out:
        arguments = ["protoc", f"--proto_path={source.parent}", f"--descriptor_set_out={out.name}", source.name]
        if protoc.main(arguments) != 0:
            raise ImportError(f"{source} is no .proto file that grpcio-tools can read: install switchml again")
        return out.read()


def _message_class(descriptor, pool):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)  # before protobuf 4.22


def _classes(file):
    pool = descriptor_pool.DescriptorPool()  # of its own: a generated module of the same file may be there too
    pool.AddSerializedFile(file.SerializeToString())
    made = _Messages()
    for message in file.message_type:
        setattr(made, message.name, _message_class(pool.FindMessageTypeByName(f"{file.package}.{message.name}"), pool))
    for enum in file.enum_type:
        numbers = _Numbers()
        for value in enum.value:
            setattr(numbers, value.name, value.number)
        setattr(made, enum.name, numbers)
    return made


FILE = _load()
messages = _classes(FILE)


def _methods(service):
    """[(path, name, class of the request, class of the answer, whether the answer is a stream)]"""
    found = next((candidate for candidate in FILE.service if candidate.name == service), None)
    if found is None:
        raise ValueError(f"service {service!r}: allowed are {', '.join(candidate.name for candidate in FILE.service)}")
    for method in found.method:
        takes, gives = (getattr(messages, name.rpartition(".")[2]) for name in (method.input_type, method.output_type))
        yield f"/{FILE.package}.{service}/{method.name}", method.name, takes, gives, method.server_streaming


class Stub:
    """A client of a service: its calls, as attributes."""

    def __init__(self, service, channel):
        for path, name, takes, gives, streams in _methods(service):
            make = channel.unary_stream if streams else channel.unary_unary
            setattr(
                self,
                name,
                make(path, request_serializer=takes.SerializeToString, response_deserializer=gives.FromString),
            )


def handler(service, implementation):
    """What a grpc.Server serves: `implementation` has a method(request, context) for each call, under its name."""
    made = {}
    for _, name, takes, gives, streams in _methods(service):
        make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        made[name] = make(
            getattr(implementation, name),
            request_deserializer=takes.FromString,
            response_serializer=gives.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(f"{FILE.package}.{service}", made)


def bearer(token):
    """The metadata of a call with this token; none for an empty one."""
    return (("authorization", f"Bearer {token}"),) if token else ()
