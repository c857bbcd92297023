"""A flow of TCP: tcp_flow.py receive ADDRESS PORT, tcp_flow.py send ADDRESS PORT CONTROL BEGIN END. The
receiver says "[seconds, bytes]" 20 times a second, by the clock that all processes of this machine share."""

import json
import socket
import sys
import time

PIECE = 1 << 16
EVERY = 0.05  # seconds


def receive(address, port):
    with socket.create_server((address, int(port))) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
    received, said = 0, 0.0
    while piece := connection.recv(PIECE):
        received += len(piece)
        now = time.monotonic()
        if now - said >= EVERY:
            print(json.dumps([now, received]), flush=True)
            said = now


def send(address, port, control, begin, end):
    with socket.create_connection((address, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        time.sleep(max(0.0, float(begin) - time.monotonic()))
        while time.monotonic() < float(end):
            connection.sendall(bytes(PIECE))


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
