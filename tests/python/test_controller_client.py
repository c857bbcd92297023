"""What a worker asks of a controller, and what it says when that goes wrong. The controllers here are fakes that answer
as a test wants; the real one is in test_controller.py. gRPC stays out of the process that ranks are forked from."""

import concurrent.futures
import contextlib
import socket

import harness
import pytest

grpc = pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio")

TOKEN = "t0ken"


@contextlib.contextmanager
def controller(fake, credentials=None):
    """host:port of a server in this process."""
    from switchml_agent import api

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((api.handler("Controller", fake),))
    port = (
        server.add_secure_port("localhost:0", credentials) if credentials else server.add_insecure_port("127.0.0.1:0")
    )
    server.start()
    try:
        yield f"{'localhost' if credentials else '127.0.0.1'}:{port}"
    finally:
        server.stop(None).wait()


class Fake:
    """Remembers what it was asked; every call ends with `error` (code, text) if there is one."""

    def __init__(self, error=None):
        self.error, self.asked, self.tokens = error, [], []

    def __getattr__(self, call):  # whatever is not answered here
        return self.unexpected

    def unexpected(self, request, context):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "not expected")

    def _note(self, request, context):
        self.asked.append(request)
        self.tokens.append(dict(context.invocation_metadata()).get("authorization", ""))
        if self.error:
            context.abort(*self.error)

    def Locate(self, request, context):
        from switchml_agent import api

        self._note(request, context)
        share = api.messages.LocatedShare(
            tree_id=2**64 - 2, weight=3, switch_addresses=[f"10.0.0.{i}:4800" for i, _ in enumerate(request.ranks)]
        )
        return api.messages.LocateReply(shares=[share])

    def Open(self, request, context):
        from switchml_agent import api

        self._note(request, context)
        session = api.messages.SessionName(job=7, epoch=0xDEADBEEF, session_key=2**64 - 3)
        return api.messages.OpenReply(
            session=session, slots=64, payload_bytes=256, whole_chunks=True, lease_ms=30000, tree=True
        )


def question(address, **values):
    preset = {"address": address, "token": TOKEN, "token_file": "", "ca_file": "", "cert_file": "", "key_file": "",
              "patience": 20.0}  # fmt: skip
    return {**preset, "ranks": [["10.0.0.1", "::1"], ["10.0.0.2"]], **values}


OPEN = {"protocol_version": 1, "client_key": 2**64 - 1, "group": "g", "shards": 2, "slots": 0, "payload_bytes": 64512,
        "queue_pairs": True, "exact": True, "share": 4, "replaces": (9, 10, 11)}  # fmt: skip


def in_a_process(function, *args):
    with harness.fresh_pool(1, join_group=False, with_gloo=False) as pool:
        return pool.run(function, *args)[0]


def locate_and_open():
    from switchml import _controller

    fake = Fake()
    with controller(fake) as address:
        located = _controller.ask("locate", question(address))
        granted = _controller.ask("open", question(address, **OPEN))
    return located, granted, [str(request) for request in fake.asked], fake.tokens


def test_what_is_asked_and_answered():
    located, granted, asked, tokens = in_a_process(locate_and_open)
    assert located == [(3, ["10.0.0.0:4800", "10.0.0.1:4800"], 2**64 - 2)]
    assert granted == {"slots": 64, "payload_bytes": 256, "whole_chunks": True, "lease_ms": 30000, "exact": False, "tree": True,
                       "job": 7, "epoch": 0xDEADBEEF, "session_key": 2**64 - 3}  # fmt: skip
    assert tokens == [f"Bearer {TOKEN}"] * 2
    assert "10.0.0.2" in asked[0]
    for line in ("client_key: 18446744073709551615", "workers: 2", "shards: 2", "payload_bytes: 64512", 'group: "g"',
                 "queue_pairs: true", "exact: true", "share: 4", "replaces {\n  job: 9\n  epoch: 10\n  session_key: 11\n}"):  # fmt: skip
        assert line in asked[1]


def refusal(code, text, values):
    from switchml import _controller

    fake = Fake((getattr(grpc.StatusCode, code), text) if code else None)
    with controller(fake) as address:
        try:
            _controller.ask("locate", question(address, **values))
        except (ValueError, RuntimeError) as error:
            return type(error).__name__, str(error).replace(address, "C")
    return "", ""


REFUSALS = [
    (
        "INVALID_ARGUMENT",
        "payload 3 is not allowed",
        {},
        "ValueError",
        "controller C refuses: payload 3 is not allowed",
    ),
    ("RESOURCE_EXHAUSTED", "no slots left", {}, "RuntimeError", "controller C refuses: no slots left"),
    ("UNAVAILABLE", "switch s1 does not answer", {}, "RuntimeError", "controller C refuses: switch s1 does not answer"),
    ("UNAUTHENTICATED", "no token", {"token": ""}, "ValueError", "SWITCHML_CONTROLLER_TOKEN"),
    ("UNIMPLEMENTED", "what?", {}, "ValueError", "install the same switchml there and here"),
    ("", "", {"token_file": "/no/such"}, "ValueError", 'SWITCHML_CONTROLLER_TOKEN_FILE="/no/such" cannot be read'),
    ("", "", {"token_file": "/dev/null"}, "ValueError", "its first line is no token"),
    ("", "", {"ca_file": "/no/such"}, "ValueError", 'SWITCHML_CONTROLLER_CA="/no/such" cannot be read'),
    ("", "", {"token_file": "/dev/zero"}, "ValueError", 'SWITCHML_CONTROLLER_TOKEN_FILE="/dev/zero" has more than'),
    ("", "", {"ca_file": "/dev/zero"}, "ValueError", 'SWITCHML_CONTROLLER_CA="/dev/zero" has more than'),
]


@pytest.mark.parametrize(
    ("code", "text", "values", "kind", "part"), REFUSALS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_refusal_says_why(code, text, values, kind, part):
    got, message = in_a_process(refusal, code, text, values)
    assert got == kind
    assert part in message


def ask_nobody(address, patience):
    from switchml import _controller

    try:
        _controller.ask("locate", question(address, patience=patience))
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_controller_that_is_not_there_is_named():
    address = f"127.0.0.1:{harness.free_port(socket.SOCK_STREAM)}"
    message = in_a_process(ask_nobody, address, 0.5)
    assert f"controller {address} does not answer" in message
    assert "is switchml-controller running there" in message


def token_from(file):
    from switchml import _controller

    fake = Fake()
    with controller(fake) as address:
        _controller.ask("locate", question(address, token="", token_file=file))
    return fake.tokens


def test_a_token_from_a_file(tmp_path):
    (tmp_path / "token").write_text("from-file\nand more\n")
    assert in_a_process(token_from, str(tmp_path / "token")) == ["Bearer from-file"]


def over_tls(key, certificate, ca_file):
    from switchml import _controller

    credentials = grpc.ssl_server_credentials([(key, certificate)])
    with controller(Fake(), credentials) as address:
        located = _controller.ask("locate", question(address, ca_file=ca_file))
        try:
            _controller.ask("locate", question(address, patience=1.0))
        except RuntimeError as error:
            return located, str(error)
    return located, ""


def test_tls_by_a_certificate_authority(tmp_path):
    located, without = in_a_process(over_tls, *harness.make_certificate(tmp_path), str(tmp_path / "cert.pem"))
    assert len(located) == 1
    assert "Socket closed" in without or "reset" in without, "what keeps the connection from being made"
    assert "does it speak TLS (then SWITCHML_CONTROLLER_CA must be set)" in without


def with_certificates(key, certificate, client_ca, questions):
    """For each question the number of answers, or what is wrong; the controller takes callers with a certificate
    only."""
    from switchml import _controller

    credentials = grpc.ssl_server_credentials([(key, certificate)], client_ca, require_client_auth=True)
    outcomes = []
    with controller(Fake(), credentials) as address:
        for values in questions:
            try:
                outcomes.append(len(_controller.ask("locate", question(address, **{"patience": 2.0, **values}))))
            except (ValueError, RuntimeError) as error:
                outcomes.append(f"{type(error).__name__}: {error}")
    return outcomes


def test_a_certificate_is_shown_where_the_controller_wants_one(tmp_path):
    server = harness.make_certificate(tmp_path)
    _, worker = harness.make_certificate(tmp_path, "worker-")
    harness.make_certificate(tmp_path, "other-")
    files = {
        name: str(tmp_path / f"{name}.pem") for name in ("cert", "worker-cert", "worker-key", "other-cert", "other-key")
    }
    ca = {"ca_file": files["cert"]}
    shown, missing, other, wrong_authority = in_a_process(with_certificates, *server, worker, [
        {**ca, "cert_file": files["worker-cert"], "key_file": files["worker-key"], "patience": 20.0},
        ca,
        {**ca, "cert_file": files["other-cert"], "key_file": files["other-key"]},
        {"ca_file": files["other-cert"]},
    ])  # fmt: skip
    assert shown == 1
    assert "does not answer" in missing
    assert "does it ask for a certificate (SWITCHML_CONTROLLER_CERT and _KEY are not set)?" in missing
    assert f'has its --tls-client-ca signed SWITCHML_CONTROLLER_CERT="{files["other-cert"]}"?' in other
    assert f'has SWITCHML_CONTROLLER_CA="{files["other-cert"]}" signed its certificate' in wrong_authority


def test_certificates_that_are_none(tmp_path):
    harness.make_certificate(tmp_path)
    harness.make_certificate(tmp_path, "other-")
    harness.make_certificate(tmp_path, "locked-", "-passout", "pass:secret")
    (tmp_path / "text.pem").write_text("no certificate\n")
    cases = (
        ({"ca_file": "text.pem"}, 'SWITCHML_CONTROLLER_CA="{ca_file}" is no file of certificates in PEM format'),
        ({"cert_file": "none.pem"}, 'SWITCHML_CONTROLLER_CERT="{cert_file}" cannot be read'),
        ({"key_file": "none.pem"}, 'SWITCHML_CONTROLLER_KEY="{key_file}" cannot be read'),
        (
            {"cert_file": "text.pem"},
            'SWITCHML_CONTROLLER_CERT="{cert_file}" and SWITCHML_CONTROLLER_KEY="{key_file}" must be',
        ),
        ({"key_file": "other-key.pem"}, "must be a certificate and its key, unencrypted, in PEM format"),
        ({"cert_file": "locked-cert.pem", "key_file": "locked-key.pem"}, "unencrypted"),
    )
    for values, part in cases:
        files = {"ca_file": "cert.pem", "cert_file": "cert.pem", "key_file": "key.pem", **values}
        files = {name: str(tmp_path / file) for name, file in files.items()}
        kind, message = in_a_process(refusal, "", "", files)
        assert kind == "ValueError"
        assert part.format(**files) in message


def without_proxies():
    from switchml import _controller

    fake = Fake()
    with controller(fake) as address:
        return _controller.ask("locate", question(address))


def test_proxies_are_not_for_controllers(monkeypatch):
    """In an environment that has one for everything; nobody listens there."""
    nowhere = f"http://127.0.0.1:{harness.free_port(socket.SOCK_STREAM)}"
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, nowhere)
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert len(in_a_process(without_proxies)) == 1


def test_without_grpc_the_error_says_what_to_install(monkeypatch):
    import sys

    from switchml import _controller

    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ValueError, match=r'SWITCHML_CONTROLLER="c:1" needs gRPC.*pip install grpcio protobuf'):
        _controller.ask("locate", question("c:1"))
