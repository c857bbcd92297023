"""Values that no text shows: tokens."""


class Secret(str):
    """A string whose value is in no repr, and so in no traceback that shows variables, and in no pickle. Copies of an
    object that has one have it too."""

    def __repr__(self):
        return "'(hidden)'"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise TypeError(
            "switchml: a secret (controller_token) is not pickled: give the processes controller_token_file instead, "
            "or SWITCHML_CONTROLLER_TOKEN in their environment"
        )
