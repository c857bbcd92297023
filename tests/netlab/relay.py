"""A long way to the switch: python relay.py ADDRESS PORT SWITCH_PORT SECONDS. What comes to the one port goes to the
other that much later, and back, as if from one client each."""

import collections
import select
import socket
import sys
import time

BYTES = 65536
QUEUE = 8 * 1024 * 1024


def bound(address, port):
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        found.setsockopt(socket.SOL_SOCKET, option, QUEUE)
    found.bind((address, port))
    found.setblocking(False)
    return found


def drain(source):
    while True:
        try:
            yield source.recvfrom(BYTES)
        except BlockingIOError:
            return


def main():
    address, port, switch, delay = sys.argv[1], int(sys.argv[2]), (sys.argv[1], int(sys.argv[3])), float(sys.argv[4])
    front, backs, held = (
        bound(address, port),
        {},
        collections.deque(),
    )  # all are held as long: the first in are the first out
    clients = {}
    print("relaying", flush=True)
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        for source in select.select([front, *clients], [], [], wait)[0]:
            for data, peer in drain(source):
                if source is not front:
                    held.append((time.monotonic() + delay, front, clients[source], data))
                    continue
                if peer not in backs:
                    backs[peer] = bound(address, 0)
                    clients[backs[peer]] = peer
                held.append((time.monotonic() + delay, backs[peer], switch, data))
        while held and held[0][0] <= time.monotonic():
            _, out, to, data = held.popleft()
            out.sendto(data, to)


if __name__ == "__main__":
    main()
