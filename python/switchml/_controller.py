"""What rank 0 asks of a switchml-controller, over gRPC: where the switches are, and a session."""

import pathlib

_DIRECT = (("grpc.enable_http_proxy", 0),)
DEFAULT_PORT = 48880  # where switchml-controller listens when no port is given


def ask(call, question):
    """`call` is "locate" or "open"; `question` a dict of the values and of how to reach the controller. ValueError where it
    can never be had, RuntimeError where it cannot be had now; the text names the controller and says what to do."""
    try:
        import grpc
        from switchml_agent import api
    except ImportError as error:
        raise ValueError(
            f'SWITCHML_CONTROLLER="{question["address"]}" needs gRPC, which is missing here ({error}): '
            "pip install grpcio protobuf"
        ) from None
    with _channel(grpc, question) as channel:
        stub = api.Stub("Controller", channel)
        options = {
            "timeout": max(question["patience"], 0.001),
            "metadata": api.bearer(_token(question)),
            "wait_for_ready": True,  # a controller that is about to start is waited for
        }
        try:
            return _CALLS[call](api.messages, stub, question, options)
        except grpc.RpcError as error:
            raise _explained(grpc, question, error) from None


def _locate(messages, stub, question, options):
    return list(stub.Locate(messages.LocateRequest(ranks=_ranks(messages, question)), **options).switch_addresses)


def _open(messages, stub, question, options):
    same = ("protocol_version", "client_key", "group", "shards", "slots", "payload_bytes")
    ranks = _ranks(messages, question)
    request = messages.OpenRequest(workers=len(ranks), ranks=ranks, **{name: question[name] for name in same})
    reply = stub.Open(request, **options)
    granted = {name: getattr(reply, name) for name in ("slots", "payload_bytes", "whole_chunks", "lease_ms")}
    return granted | {name: getattr(reply.session, name) for name in ("job", "epoch", "session_key")}


_CALLS = {"locate": _locate, "open": _open}


def _ranks(messages, question):
    return [messages.RankAddresses(addresses=addresses) for addresses in question["ranks"]]


def _channel(grpc, question):
    target = question["address"]
    if ":" not in target.rpartition("]")[2]:
        target += f":{DEFAULT_PORT}"
    if not question["ca_file"]:
        return grpc.insecure_channel(target, _DIRECT)
    authorities = _file("SWITCHML_CONTROLLER_CA", question["ca_file"]).encode()
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(root_certificates=authorities), _DIRECT)


def _token(question):
    if not question["token_file"]:
        return question["token"]
    lines = _file("SWITCHML_CONTROLLER_TOKEN_FILE", question["token_file"]).splitlines()
    token = lines[0].strip() if lines else ""
    if not token or not all("!" <= c <= "~" for c in token):
        raise ValueError(
            f'SWITCHML_CONTROLLER_TOKEN_FILE="{question["token_file"]}": its first line is no token (printable ASCII without blanks)'
        )
    return token


def _file(setting, name):
    try:
        return pathlib.Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f'{setting}="{name}" cannot be read: {error}') from None


def _explained(grpc, question, error):
    code, said = error.code(), error.details()
    who = f"controller {question['address']}"
    never = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
             grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED}  # fmt: skip
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED) and "switch" not in said:
        return RuntimeError(
            f"{who} does not answer ({said}): is switchml-controller running there, is TCP let through, and do "
            "both sides use TLS or neither (SWITCHML_CONTROLLER_CA)?"
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return ValueError(f"{who} does not know this call ({said}): install the same switchml there and here")
    text = f"{who} refuses: {said}"
    if code is grpc.StatusCode.UNAUTHENTICATED:
        text += " (SWITCHML_CONTROLLER_TOKEN or SWITCHML_CONTROLLER_TOKEN_FILE says who is asking)"
    return ValueError(text) if code in never else RuntimeError(text)
