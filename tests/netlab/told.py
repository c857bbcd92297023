"""A rank's end of star.Job: reads lines [number, call, [argument, ...]] from standard input and answers each with a
line "answer NUMBER {...}"."""

import json
import sys


def say(number, answer):
    print(f"answer {number} {json.dumps(answer)}", flush=True)


def serve(calls):
    """Says that it is ready, then calls the functions of `calls`, by name, until told to leave or nobody is there to
    tell it."""
    say(0, {"answer": None})
    for line in sys.stdin:
        number, call, arguments = json.loads(line)
        if call == "leave":
            return
        try:
            answer = {"answer": calls[call](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(number, answer)
