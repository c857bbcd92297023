"""A TCP listener in front of a gRPC server, which cannot defend itself against those who only connect: it hands on what
comes over no more connections than there is room for. What C++ does is in backend/transport/guarded_listener.h."""

import asyncio
import collections
import contextlib
import errno
import logging
import resource
import socket
import threading
import time

PATIENCE = 10.0  # seconds, with a connection over which nothing comes
_DESCRIPTORS = 3  # of a connection: its own, and both ends of the one to the server
_MOST_CONNECTIONS = 4096
_LEAST_FROM_ADDRESS = 256
_BACKLOG = 4096
_PIECE = 1 << 16
_REST = 0.1  # seconds without a descriptor
_QUIET = 60.0  # seconds between lines in the log
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_log = logging.getLogger(__name__)


def limits():
    """(connections in all, from one address): what fits into half of this process' descriptors."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    in_all = _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else files // (2 * _DESCRIPTORS)
    in_all = max(1, min(in_all, _MOST_CONNECTIONS))
    return in_all, max(in_all // 8, min(in_all // 2, _LEAST_FROM_ADDRESS), 1)


def bound(listen):
    """A socket that listens at ADDRESS:PORT. A wildcard address takes IPv6 and IPv4."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if host in ("0.0.0.0", "::") and socket.has_dualstack_ipv6():
        listener = socket.create_server(
            ("::", int(port)), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
        )
    else:
        family, *_, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


class Front:
    """Connects to the Unix socket `path` for each who comes to `listener`. Has a thread."""

    def __init__(self, listener, path):
        self._listener, self._path = listener, path
        self._name = "{}:{}".format(*listener.getsockname()[:2])
        self._in_all, self._from_address = limits()
        self._crowds: dict[str, collections.OrderedDict] = {}  # of each address: tasks, the one silent longest first
        self._quiet_until = 0.0
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._accepting = self._loop.create_task(self._accept())
        self._thread = threading.Thread(target=self._run, name="front", daemon=True)
        self._thread.start()

    def stop(self):
        """Ends all connections."""
        self._loop.call_soon_threadsafe(self._accepting.cancel)
        self._thread.join()

    def _run(self):
        with self._runner, self._listener, contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._accepting)

    async def _accept(self):
        while True:
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in _SHORTAGES:  # others are the trouble of who wanted to connect
                    self._make_room(self._largest(), error.strerror)
                    await asyncio.sleep(_REST)
                continue
            self._admit(connection, address[0])
            await asyncio.sleep(0)  # who had to make room goes

    def _admit(self, connection, host):
        crowd = self._crowds.setdefault(host, collections.OrderedDict())
        if len(crowd) >= self._from_address:
            self._make_room(crowd, f"{len(crowd)} connections from {host}, the most of one address")
        elif (count := sum(map(len, self._crowds.values()))) >= self._in_all:
            self._make_room(self._largest(), f"{count} connections, the most in all")
        task = self._loop.create_task(self._relay(connection, crowd))
        crowd[task] = None
        task.add_done_callback(lambda _: self._forget(host, crowd, task, connection))

    def _largest(self):
        return max(self._crowds.values(), key=len, default=collections.OrderedDict())

    def _make_room(self, crowd, why):
        now = time.monotonic()
        if now >= self._quiet_until:
            _log.warning("%s: %s; the ones that are silent longest make room", self._name, why)
            self._quiet_until = now + _QUIET
        if crowd:
            crowd.popitem(last=False)[0].cancel()

    def _forget(self, host, crowd, task, connection):
        connection.close()
        crowd.pop(task, None)
        if not crowd and self._crowds.get(host) is crowd:
            del self._crowds[host]

    def _heard(self, crowd):
        if (task := asyncio.current_task()) in crowd:
            crowd.move_to_end(task)

    async def _relay(self, connection, crowd):
        """Until one of both ends it."""
        own = asyncio.current_task()
        async with contextlib.AsyncExitStack() as held:
            held.enter_context(contextlib.suppress(OSError, asyncio.TimeoutError))
            reader, writer = await asyncio.open_connection(sock=connection)
            held.callback(writer.transport.abort)
            first = await asyncio.wait_for(reader.read(_PIECE), PATIENCE)
            served, server = await asyncio.open_unix_connection(self._path)
            held.callback(server.transport.abort)
            server.write(first)
            back = self._loop.create_task(_copy(served, writer, lambda: None))
            held.callback(back.cancel)
            there = self._loop.create_task(_copy(reader, server, lambda: _heard(crowd, own)))
            held.callback(there.cancel)
            await asyncio.wait((back, there), return_when=asyncio.FIRST_COMPLETED)


async def _copy(reader, writer, heard):
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            heard()
            writer.write(piece)
            await writer.drain()


def _heard(crowd, task):
    if task in crowd:
        crowd.move_to_end(task)
