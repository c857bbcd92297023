"""The host's end of a switch's control port: a network interface that carries control packets of workers."""

import logging
import select
import socket
import threading

from switchml_agent import frames

_ALL_PROTOCOLS = 3
_PACKET_OUTGOING = 4
_LARGEST = 65536
_log = logging.getLogger(__name__)


def _open(interface):
    try:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    except PermissionError as error:
        raise OSError(error.errno, "frames need root, or the capability CAP_NET_RAW", interface) from error
    try:
        made.bind((interface, 0))
    except OSError as error:
        made.close()
        raise OSError(error.errno, error.strerror, interface) from error
    return made


class ControlPort:
    """Calls `receive(place, payload)` for each control packet, on a thread of its own. send() may be called by any
    thread."""

    def __init__(self, interface, own_ip, own_mac, receive):
        self._own = (own_ip, own_mac)
        self._receive = receive
        self._socket = _open(interface)
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="control-port", daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            ready, _, _ = select.select([self._socket, self._woken], [], [])
            if self._woken in ready:
                return
            try:
                data, address = self._socket.recvfrom(_LARGEST)
            except OSError as error:  # the interface went down; it may come back
                _log.warning("control port: %s", error)
                if self._woken in select.select([self._woken], [], [], 1.0)[0]:
                    return
                continue
            if address[2] != _PACKET_OUTGOING:
                self._take(data)

    def _take(self, data):
        try:
            place, payload = frames.packet_in(data)
        except frames.NotOurs as why:
            _log.debug("control port: dropped: %s", why)
            return
        try:
            self._receive(place, payload)
        except Exception:  # a thread that ended would leave all workers without answers
            _log.exception("control packet of %s", place)

    def send(self, place, payload):
        """OSError if the interface does not take it."""
        self._socket.send(frames.packet_out(place, *self._own, payload))

    def close(self):
        """Idempotent."""
        if self._thread.is_alive():
            self._wake.send(b"x")
            self._thread.join()
        for one in (self._socket, self._wake, self._woken):
            one.close()
