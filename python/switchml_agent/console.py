"""bmv2's simple_switch_CLI, kept open: one command, one answer.

It is a program of bmv2's own, with its own interpreter and Thrift, so that this one needs neither.
"""

import os
import select
import shutil
import subprocess
import threading
import time
import typing

from switchml_agent.driver import Gone, Refused

PROGRAM = "simple_switch_CLI"
PATIENCE = 60.0  # seconds for an answer: each takes milliseconds, but on a busy host the program's start takes long
_PROMPT = b"RuntimeCmd: "
_SIGNS = ("Invalid", "Error", "Unknown", "error")  # every refusal has one of them


class Console:
    """Thread-safe. Methods raise Gone, after which the console is of no use any more."""

    def __init__(self, host, port):
        if shutil.which(PROGRAM) is None:
            raise Gone(f"{PROGRAM} is not on PATH: it comes with bmv2 (docs/switch.md)")
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [PROGRAM, "--thrift-ip", host, "--thrift-port", str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's Ctrl-C is for us alone
        )  # fmt: skip
        self._commands = typing.cast(typing.IO[bytes], self._process.stdin)
        self._answers = typing.cast(typing.IO[bytes], self._process.stdout)
        try:
            self._read()
        except Gone:
            self.close()
            raise

    def _read(self):
        text = b""
        end = time.monotonic() + PATIENCE
        while not text.endswith(_PROMPT):
            ready, _, _ = select.select([self._answers], [], [], max(0, end - time.monotonic()))
            piece = os.read(self._answers.fileno(), 65536) if ready else b""
            if not piece:
                why = "ended" if ready else f"did not answer within {PATIENCE:g} s"
                raise Gone(f"{PROGRAM} {why}: {_last_line(text)}")
            text += piece
        return text[: -len(_PROMPT)].decode(errors="replace")

    def ask(self, *words):
        """The answer to a command; Refused if it is an error."""
        line = " ".join(str(word) for word in words)
        with self._lock:
            try:
                self._commands.write(line.encode() + b"\n")
                self._commands.flush()
            except (OSError, ValueError) as error:
                raise Gone(f"{PROGRAM} ended: {error}") from error
            answer = self._read()
        if any(sign in answer for sign in _SIGNS):
            raise Refused(f"{line}: {answer.strip()}", full="FULL" in answer)
        return answer

    def handle(self, *words):
        """The number of the entry or node that a command made."""
        answer = self.ask(*words)
        for line in answer.splitlines():
            if "handle" in line:
                return int(line.split()[-1])
        raise Refused(f"{' '.join(map(str, words))}: no handle in {answer.strip()!r}")

    def number(self, *words):
        """The number that a register or counter holds: `name[3]= 7` or `name[3]= (276 bytes, 7 packets)`."""
        value = self.ask(*words).split("]= ")[1].strip()
        return int(value.split(", ")[1].split()[0]) if value.startswith("(") else int(value)

    def close(self):
        """Idempotent. Waits for no answer: the program holds nothing that could be lost."""
        self._process.kill()
        self._process.wait()
        try:
            self._commands.close()
        except OSError:
            pass  # a command that it did not read
        self._answers.close()


def _last_line(text):
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
