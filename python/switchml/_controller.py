"""What rank 0 asks of a switchml-controller, over gRPC: where the switches are, and a session."""

import pathlib
import ssl

from switchml._secret import Secret

_DIRECT = (("grpc.enable_http_proxy", 0),)
DEFAULT_PORT = 48880  # where switchml-controller listens when no port is given
MOST_CHARACTERS = 1 << 20  # of a file with a token or certificates


def ask(call, question):
    """`call` is "locate" or "open"; `question` a dict of the values and of how to reach the controller. ValueError
    where it can never be had, RuntimeError where it cannot be had now; the text names the controller and says what to
    do."""
    try:
        import grpc
        from switchml_agent import api
    except ImportError as error:
        raise ValueError(
            f'SWITCHML_CONTROLLER="{question["address"]}" needs gRPC, which is missing here ({error}): '
            "pip install grpcio protobuf, and grpcio-tools where switchml was built without protoc"
        ) from None
    to_explain = min(0.5, question["patience"] / 10)
    with _channel(grpc, question) as channel:
        stub = api.Stub("Controller", channel)
        options = {
            "timeout": max(question["patience"] - to_explain, 0.001),
            "metadata": [(name, Secret(value)) for name, value in api.bearer(_token(question))],
            "wait_for_ready": True,  # a controller that is about to start is waited for
        }
        try:
            return _CALLS[call](api.messages, stub, question, options)
        except grpc.RpcError as error:
            raise _explained(grpc, question, error, _trouble(grpc, api.messages, stub, error, to_explain)) from None


def _locate(messages, stub, question, options):
    reply = stub.Locate(messages.LocateRequest(ranks=_ranks(messages, question)), **options)
    return [(share.weight, list(share.switch_addresses), share.tree_id) for share in reply.shares]


def _open(messages, stub, question, options):
    same = (
        "protocol_version",
        "client_key",
        "group",
        "shards",
        "slots",
        "payload_bytes",
        "queue_pairs",
        "exact",
        "share",
    )
    ranks = _ranks(messages, question)
    request = messages.OpenRequest(workers=len(ranks), ranks=ranks, **{name: question[name] for name in same})
    job, epoch, session_key = question["replaces"]
    if job:
        request.replaces.CopyFrom(messages.SessionName(job=job, epoch=epoch, session_key=session_key))
    reply = stub.Open(request, **options)
    of_reply = ("slots", "payload_bytes", "whole_chunks", "lease_ms", "exact", "tree")
    granted = {name: getattr(reply, name) for name in of_reply}
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
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(**_tls(question)), _DIRECT)


def _tls(question):
    """The files of the settings, which are looked into here: gRPC would only say that it cannot connect."""
    ca, cert, key = (question[name] for name in ("ca_file", "cert_file", "key_file"))
    texts = {"root_certificates": _file("SWITCHML_CONTROLLER_CA", ca).encode()}
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca)
    except ssl.SSLError as error:
        raise ValueError(f'SWITCHML_CONTROLLER_CA="{ca}" is no file of certificates in PEM format: {error}') from None
    if not cert:
        return texts
    texts["certificate_chain"] = _file("SWITCHML_CONTROLLER_CERT", cert).encode()
    texts["private_key"] = _file("SWITCHML_CONTROLLER_KEY", key).encode()
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="")  # it must not ask for one
    except ssl.SSLError as error:
        raise ValueError(
            f'SWITCHML_CONTROLLER_CERT="{cert}" and SWITCHML_CONTROLLER_KEY="{key}" must be a certificate and its key, '
            f"unencrypted, in PEM format: {error}"
        ) from None
    return texts


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
        with pathlib.Path(name).open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)  # a device may have no end
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f'{setting}="{name}" cannot be read: {error}') from None
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f'{setting}="{name}" has more than {MOST_CHARACTERS} characters')
    return text


def _trouble(grpc, messages, stub, error, seconds):
    """What the error says; where it is that time is up, what keeps the connection from being made."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        try:
            stub.Describe(messages.DescribeRequest(), timeout=seconds)
        except grpc.RpcError as now:
            if now.code() is grpc.StatusCode.UNAVAILABLE:
                return now.details()
    return error.details()


def _explained(grpc, question, error, said):
    code = error.code()
    who = f"controller {question['address']}"
    never = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
             grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED}  # fmt: skip
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED) and "switch" not in error.details():
        return RuntimeError(f"{who} does not answer ({said}): {_advice(question)}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return ValueError(
            f"{who} does not know this call: if that address is the controller's, and not one of a switch's agent, "
            "install the same switchml there and here"
        )
    text = f"{who} refuses: {said}"
    if code is grpc.StatusCode.UNAUTHENTICATED:
        text += " (SWITCHML_CONTROLLER_TOKEN or SWITCHML_CONTROLLER_TOKEN_FILE says who is asking)"
    return ValueError(text) if code in never else RuntimeError(text)


def _advice(question):
    ask = ["is switchml-controller running there", "is TCP let through"]
    if not question["ca_file"]:
        ask += ["does it speak TLS (then SWITCHML_CONTROLLER_CA must be set)"]
    else:
        ask += [
            "does it speak TLS",
            f'has SWITCHML_CONTROLLER_CA="{question["ca_file"]}" signed its certificate for this name',
        ]
        shown = f'has its --tls-client-ca signed SWITCHML_CONTROLLER_CERT="{question["cert_file"]}"'
        ask += [
            shown
            if question["cert_file"]
            else "does it ask for a certificate (SWITCHML_CONTROLLER_CERT and _KEY are not set)"
        ]
    return ", ".join(ask) + "?"
