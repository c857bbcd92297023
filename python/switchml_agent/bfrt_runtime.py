"""BFRuntime, as the P4 SDE's own Python client speaks it: tables by their names, values as numbers."""

import functools

import grpc

from switchml_agent.driver import Gone, Refused

PATIENCE = 10.0  # seconds for an answer; each takes milliseconds
_ALL_PIPES = 0xFFFF
_TRIES, _TRY = 5, 1  # to subscribe; seconds each
_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_FULL = grpc.StatusCode.RESOURCE_EXHAUSTED


def import_client():
    """The module bfrt_grpc.client; Refused if there is none."""
    try:
        import bfrt_grpc.client as client
    except ImportError as error:
        raise Refused(
            f"{error}: BFRuntime's Python client, bfrt_grpc, is part of the P4 SDE (open-p4studio): add its folder, "
            "$SDE_INSTALL/lib/pythonX.Y/site-packages/tofino, to PYTHONPATH, and install six and googleapis-common-protos"
        ) from error
    return client


def _text(error):
    """(text, whether there was no room) of an error of the client."""
    inner = getattr(error, "errors", [])
    if inner:
        full = any(each.canonical_code == _FULL.value[0] for _, each in inner)
        return "; ".join(each.message or f"code {each.canonical_code}" for _, each in inner), full
    outer = getattr(error, "grpc_error", None) or error
    if isinstance(outer, grpc.RpcError):
        return f"{outer.code().name}: {outer.details()}", outer.code() == _FULL
    return str(error) or type(error).__name__, False


def _told(call):
    """A method that raises Refused and Gone instead of the client's errors."""

    @functools.wraps(call)
    def wrapped(self, *arguments):
        try:
            return call(self, *arguments)
        except (Refused, Gone):
            raise
        except (grpc.RpcError, self.client.BfruntimeRpcException) as error:
            outer = getattr(error, "grpc_error", None) or error
            text, full = _text(error)
            if isinstance(outer, grpc.RpcError) and outer.code() in _LOST:
                raise Gone(text) from error
            raise Refused(_about(arguments) + text, full) from error
        except (LookupError, ValueError, TypeError, AssertionError, RuntimeError) as error:
            # The client's own: a name that the program has not, a value that does not fit, an answer that it cannot
            # read.
            raise Refused(_about(arguments) + _text(error)[0]) from error

    return wrapped


def _about(arguments):
    return f"{arguments[0]}: " if arguments else ""


class _Stub:
    """The calls of BFRuntime, with a time limit: the client sets none."""

    def __init__(self, stub):
        self.StreamChannel = stub.StreamChannel  # lasts as long as the connection
        for name in ("Write", "Read", "GetForwardingPipelineConfig", "SetForwardingPipelineConfig"):
            setattr(self, name, functools.partial(getattr(stub, name), timeout=PATIENCE))


class Runtime:
    """A connection, bound to a program. Not thread-safe. Methods raise Refused and Gone; after the latter it is of no
    use."""

    def __init__(self, address, device, program, client_id):
        self.client = import_client()
        self._device = device
        self._interface = self.client.ClientInterface(address, client_id, device, perform_subscribe=False)
        self._target = self.client.Target(device_id=device, pipe_id=_ALL_PIPES)
        try:
            self._begin(address, program)
        except (Gone, Refused):
            self.close()
            raise

    @_told
    def _begin(self, address, program):
        interface = self._interface
        self._reach(address)
        interface.stub = interface.reader_writer_interface.stub = _Stub(interface.stub)
        # Not by the constructor: what it leaves behind when that fails would wait for the stream's end for ever.
        interface.set_up_stream()
        if not interface.subscribe(timeout=_TRY, num_tries=_TRIES):
            raise Refused(
                f"device {self._device}: the server took no subscription: another client with the same number?"
            )
        self.info = interface.bfrt_info_get()
        if self.info.p4_name_get() != program:
            self.info = self._other(program, self.info.p4_name_get())
        interface.bind_pipeline_config(program)

    def _reach(self, address):
        try:
            grpc.channel_ready_future(self._interface.channel).result(timeout=PATIENCE)
        except grpc.FutureTimeoutError as error:
            raise Gone(f"nothing answers at {address} within {PATIENCE:g} s") from error

    def _other(self, program, first):
        try:
            return self._interface.bfrt_info_get(program)
        except RuntimeError as error:
            raise Refused(f"program {program!r}: the switch does not run it; it runs {first!r}") from error

    def alive(self):
        """Gone if the server has ended the connection, even if another server is there by now."""
        if not self._interface.stream_recv_thread.is_alive():
            raise Gone("the server has ended the connection")

    def has(self, table):
        return table in self.info.table_dict

    def _table(self, name):
        self.alive()
        if not self.has(name):
            raise Refused("the program has no such table")
        return self.info.table_get(name)

    def _key(self, table, keys):
        return table.make_key([self._key_field(name, value) for name, value in keys.items()])

    def _key_field(self, name, value):
        if isinstance(value, tuple):
            return self.client.KeyTuple(name, value=value[0], mask=value[1])
        return self.client.KeyTuple(name, value=value)

    def _data(self, table, values, action=None):
        return table.make_data([self._data_field(name, value) for name, value in values.items()], action)

    def _data_field(self, name, value):
        if not isinstance(value, list):
            return self.client.DataTuple(name, val=value)
        if value and isinstance(value[0], bool):
            return self.client.DataTuple(name, bool_arr_val=value)
        return self.client.DataTuple(name, int_arr_val=value)

    @_told
    def add(self, name, keys, values, action=None):
        """An entry; Refused if there is one already. A pair as a key is a value and its mask."""
        table = self._table(name)
        table.entry_add(self._target, [self._key(table, keys)], [self._data(table, values, action)])

    @_told
    def extend(self, name, keys, values):
        """Adds to the lists of an entry."""
        self._modify(name, keys, values, self.client.bfruntime_pb2.TableModIncFlag.MOD_INC_ADD)

    @_told
    def reduce(self, name, keys, values):
        """Takes these out of the lists of an entry."""
        self._modify(name, keys, values, self.client.bfruntime_pb2.TableModIncFlag.MOD_INC_DELETE)

    def _modify(self, name, keys, values, way):
        table = self._table(name)
        table.entry_mod_inc(self._target, [self._key(table, keys)], [self._data(table, values)], way)

    @_told
    def remove(self, name, keys):
        table = self._table(name)
        table.entry_del(self._target, [self._key(table, keys)])

    @_told
    def set_default(self, name, values, action):
        table = self._table(name)
        table.default_entry_set(self._target, self._data(table, values, action))

    @_told
    def default(self, name):
        """Values by name, of a table without keys."""
        data, _ = next(iter(self._table(name).default_entry_get(self._target)))
        return data.to_dict()

    @_told
    def read(self, name, all_keys):
        """[values by name] of these entries, from the switch itself."""
        table = self._table(name)
        keys = [self._key(table, keys) for keys in all_keys]
        return [data.to_dict() for data, _ in table.entry_get(self._target, keys, {"from_hw": True})]

    @_told
    def values(self, name):
        """{key: values by name} of a table with one exact key."""
        found = self._table(name).entry_get(self._target, None, {"from_hw": False})
        return {next(iter(key.to_dict().values()))["value"]: data.to_dict() for data, key in found if key is not None}

    @_told
    def clear(self, name):
        """Leaves no entry, key by key: not every table can be emptied as a whole."""
        table = self._table(name)
        found = [key for _, key in table.entry_get(self._target, None, {"from_hw": False}) if key is not None]
        if found:
            table.entry_del(self._target, found)

    def close(self):
        """Idempotent. Does not wait for the server."""
        interface = self._interface
        if not interface.is_independent:
            interface.stream_out_q.put(None)
            interface.is_independent = True  # or its end would wait for the stream's
        interface.channel.close()
