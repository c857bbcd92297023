"""What a call is answered with when it cannot be done."""


class Refusal(Exception):
    """The name of a gRPC status, and a text that names the thing, the value and the allowed values."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def invalid(text):
    return Refusal("INVALID_ARGUMENT", text)


def not_found(text):
    return Refusal("NOT_FOUND", text)


def precondition(text):
    return Refusal("FAILED_PRECONDITION", text)


def exhausted(text):
    return Refusal("RESOURCE_EXHAUSTED", text)


def unavailable(text):
    return Refusal("UNAVAILABLE", text)


def cancelled(text):
    return Refusal("CANCELLED", text)


def internal(text):
    return Refusal("INTERNAL", text)


def check_range(name, value, least, most):
    if not least <= value <= most:
        raise invalid(f"{name} {value}: allowed are {least} to {most}")
