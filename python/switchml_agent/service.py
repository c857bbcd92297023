"""The DataPlane service over a driver of a switch, whichever it is: bmv2.Bmv2 shows what a driver has to offer."""

import concurrent.futures
import contextlib
import hmac
import logging
import queue
import tempfile

import grpc
import xxhash

from switchml_agent import api, front
from switchml_agent.driver import PROTOCOL_VERSION
from switchml_agent.errors import Refusal, internal
from switchml_agent.frames import Place

_THREADS = 8  # one of them is held by a controller that takes control packets
_CALLS = 128  # at a time, over one connection
_WAITING_PACKETS = 1024  # workers repeat what is dropped beyond
_LOOK_AROUND = 1.0  # seconds after which a silent stream looks whether its caller is still there
# The beginnings of an open and of its answer: version and kind, type, status; the request's number follows.
_OPEN = bytes([PROTOCOL_VERSION << 4 | 3, 1])
_CONTROLLED = bytes([PROTOCOL_VERSION << 4 | 4, 1, 0, 9])
_log = logging.getLogger(__name__)
messages = api.messages


def _answers(call):
    """A call whose Refusal is its status."""

    def answer(self, request, context):
        try:
            return call(self, request, context)
        except Refusal as refusal:
            context.abort(getattr(grpc.StatusCode, refusal.code), str(refusal))

    return answer


class DataPlane:
    """What api.handler("DataPlane", ...) serves. `send(place, payload)` puts a control packet on its way."""

    def __init__(self, driver, send):
        self._driver = driver
        self._send = send
        self._listener = None  # queue of the controller that takes control packets

    @_answers
    def Capabilities(self, request, context):
        return self._driver.capabilities()

    @_answers
    def Reset(self, request, context):
        self._driver.reset(context.is_active)
        return messages.ResetReply()

    @_answers
    def Install(self, request, context):
        self._driver.install(request, context.is_active)
        return messages.InstallReply()

    @_answers
    def SetMember(self, request, context):
        return self._driver.set_member(request, context.is_active)

    @_answers
    def Remove(self, request, context):
        self._driver.remove(request, context.is_active)
        return messages.RemoveReply()

    @_answers
    def Contributors(self, request, context):
        return self._driver.contributors(request)

    @_answers
    def Counters(self, request, context):
        return self._driver.counters()

    @_answers
    def PacketOut(self, request, context):
        place = self._driver.place(request.worker)
        try:
            self._send(place, request.payload)
        except OSError as error:
            raise internal(f"control port: {error.strerror}") from error
        return messages.PacketOutReply()

    def PacketsIn(self, request, context):
        """A second caller takes over from the first: there is one controller at a time."""
        own: queue.Queue = queue.Queue(_WAITING_PACKETS)
        former, self._listener = self._listener, own
        if former:
            _put(former, None)
        context.send_initial_metadata(())  # the caller knows from here on that nothing is missed
        while context.is_active() and self._listener is own:
            try:
                packet = own.get(timeout=_LOOK_AROUND)
            except queue.Empty:
                continue
            if packet is not None:
                yield packet
        if self._listener is own:
            self._listener = None
        else:
            context.abort(grpc.StatusCode.ABORTED, "another caller takes the control packets now")

    def receive(self, place: Place, payload: bytes):
        """A control packet came from there."""
        self._driver.heard(place)
        listener = self._listener
        if listener is None:
            _log.debug("control packet of %s: no controller listens", place)
            return self._turn_away(place, payload)
        where = messages.SwitchPlace(address=f"{place.ip}:{place.udp_port}", mac=place.mac, port=place.port)
        if not _put(listener, messages.ControlPacket(payload=payload, worker=where)):
            _log.debug("control packet of %s dropped: %d wait already", place, _WAITING_PACKETS)

    def _turn_away(self, place, payload):
        """A worker that asks the switch itself for a session is told that there is a controller."""
        if payload[:2] == _OPEN and len(payload) >= 12 and payload == _checked(payload[:-4]):
            with contextlib.suppress(OSError):
                self._send(place, _checked(_CONTROLLED + payload[4:8]))


def _checked(message):
    """A control message with its checksum. [CTL-8]"""
    return message + (xxhash.xxh3_64_intdigest(message) % 2**32).to_bytes(4, "big")


def _put(waiting, item):
    try:
        waiting.put_nowait(item)
    except queue.Full:
        return False
    return True


class Tokens(grpc.ServerInterceptor):
    """Lets calls with the token pass."""

    def __init__(self, token):
        self._wanted = f"Bearer {token}".encode()
        self._refuse = grpc.unary_unary_rpc_method_handler(_unauthenticated)

    def intercept_service(self, continuation, call):
        given = next((value for key, value in call.invocation_metadata if key == "authorization"), "")
        if hmac.compare_digest(str(given).encode(), self._wanted):
            return continuation(call)
        return self._refuse


def _unauthenticated(request, context):
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "authorization: `Bearer TOKEN` with this agent's token is needed")


class _Fronted:
    """A started grpc.Server at a Unix socket of `folder`, to which a Front brings what comes over TCP."""

    def __init__(self, server, listener, folder):
        self._server, self._front, self._folder = server, listener, folder

    def stop(self, grace):
        """As that of grpc.Server, but it has ended then."""
        stopped = self._server.stop(grace)
        stopped.wait()
        self._front.stop()
        self._folder.cleanup()
        return stopped


def _bind(server, address, tls):
    if tls:
        server.add_secure_port(address, grpc.ssl_server_credentials([(tls[1], tls[0])]))
    else:
        server.add_insecure_port(address)


def serve(service, listen, token=None, tls=None):
    """A started server, with the stop() of a grpc.Server, and the port that it listens on; None: `listen` is a Unix
    socket. `tls`: (certificate, key), as PEM. OSError if it cannot."""
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="rpc"),
        interceptors=[Tokens(token)] if token else [],
        options=[
            ("grpc.server_handshake_timeout_ms", int(front.PATIENCE * 1000)),
            ("grpc.max_concurrent_streams", _CALLS),
        ],
    )
    server.add_generic_rpc_handlers((api.handler("DataPlane", service),))
    try:
        if listen.startswith("unix:"):
            _bind(server, listen, tls)
            server.start()
            return server, None
        listener = front.bound(listen)
        folder = tempfile.TemporaryDirectory(prefix="switchml-agent-")
        _bind(server, f"unix:{folder.name}/grpc", tls)
    except (RuntimeError, ValueError, OSError) as error:
        raise OSError(f"--listen {listen}: {error}") from error
    server.start()
    fronted = _Fronted(server, front.Front(listener, f"{folder.name}/grpc"), folder)
    return fronted, listener.getsockname()[1]
