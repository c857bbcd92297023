"""A BFRuntime server without driver and chip, over bfrt_switch.Switch: what the SDE's own Python client says is taken
apart, by the numbers of tables and fields that it was told, and held to the tables' checks. Needs that client,
bfrt_grpc."""

import concurrent.futures
import json
import threading

import grpc
from bfrt_grpc import bfruntime_pb2 as pb
from bfrt_grpc import bfruntime_pb2_grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2

from switchml_agent.driver import Gone, Refused

_REGISTER = [{"name": "$bfrt_field_class", "value": "register_data"}]


def _type(table, bits, flags=()):
    if not table.startswith("pipe."):
        return {"type": {0: "string", 1: "bool"}.get(bits, f"uint{bits}")}
    return {"type": "bytes", "width": bits}


def _field(number, name, kind, flags=(), annotations=()):
    return {
        "mandatory": "optional" not in flags,
        "read_only": False,
        "singleton": {
            "id": number,
            "name": name,
            "repeated": "list" in flags,
            "annotations": list(annotations),
            "type": kind,
        },
    }


def _described(number, table):
    """As bf-rt.json has it."""
    annotations = _REGISTER if "$REGISTER_INDEX" in table.keys else ()
    counted = {"$COUNTER_SPEC_PKTS": {"type": "uint64"}}
    indices = {name: {"type": "uint32"} for name in ("$REGISTER_INDEX", "$COUNTER_INDEX", "$MATCH_PRIORITY")}
    return {
        "name": table.name, "id": number, "table_type": "", "size": table.size, "annotations": [], "depends_on": [],
        "attributes": [], "supported_operations": [],
        "key": [
            {"id": i, "name": name, "repeated": False, "annotations": [], "mandatory": False, "match_type": match,
             "type": indices.get(name) or _type(table.name, bits)}
            for i, (name, (match, bits)) in enumerate(table.keys.items(), 1)
        ],
        "data": [
            _field(i, name, counted.get(name) or _type(table.name, bits), flags, annotations)
            for i, (name, (bits, *flags)) in enumerate(table.data.items(), 1)
        ],
        "action_specs": [
            {"id": 1000 * number + i, "name": name, "annotations": [],
             "data": [{**_field(j, each, _type(table.name, bits))["singleton"], "mandatory": True, "read_only": False}
                      for j, (each, bits) in enumerate(parameters.items(), 1)]}
            for i, (name, parameters) in enumerate(table.actions.items(), 1)
        ],
    }  # fmt: skip


def describe(tables):
    """[JSON of each], with numbers of ours."""
    return [_described(number, table) for number, table in enumerate(tables, 1)]


class _Names:
    """Of a table and its parts, by their numbers, from its JSON."""

    def __init__(self, described):
        self.name = described["name"]
        self.keys = {key["id"]: key["name"] for key in described["key"]}
        self.sizes = {key["name"]: _size(key["type"]) for key in described["key"]}
        self.data = {each["singleton"]["id"]: each["singleton"] for each in described["data"] if "singleton" in each}
        self.actions = {each["id"]: each for each in described.get("action_specs", ())}

    def key(self, key):
        made = {}
        for field in key.fields:
            if field.HasField("ternary"):
                value = tuple(int.from_bytes(each, "big") for each in (field.ternary.value, field.ternary.mask))
            else:
                value = int.from_bytes(field.exact.value, "big")
            made[self.keys[field.field_id]] = value
        return made

    def values(self, data):
        action = self.actions.get(data.action_id)
        fields = {each["id"]: each for each in action["data"]} if action else self.data
        made = {}
        for field in data.fields:
            described = fields[field.field_id]
            if described["repeated"]:
                kind = field.WhichOneof("value")  # none for an empty list
                made[described["name"]] = list(getattr(field, kind).val) if kind else []
            else:
                made[described["name"]] = int.from_bytes(field.stream, "big")
        return made, action and action["name"]

    def fill(self, entry, keys, values):
        """A TableEntry, as an answer."""
        for number, name in self.keys.items():
            if name in keys:
                field, size = entry.key.fields.add(field_id=number), self.sizes[name]
                if isinstance(keys[name], tuple):
                    field.ternary.value, field.ternary.mask = (each.to_bytes(size, "big") for each in keys[name])
                else:
                    field.exact.value = keys[name].to_bytes(size, "big")
        for number, described in self.data.items():
            value = values.get(described["name"], [])
            for each in [value] if described["repeated"] else _each(value):  # of a register: one for each pipe
                _fill_field(entry.data.fields.add(field_id=number), each, described["type"])


def _fill_field(field, value, kind):
    if isinstance(value, list):
        is_bool = kind["type"] == "bool"
        (field.bool_arr_val if is_bool else field.int_arr_val).val.extend(value)
    elif isinstance(value, str):
        field.str_val = value
    elif isinstance(value, bool):
        field.bool_val = value
    else:
        field.stream = value.to_bytes(_size(kind), "big")


def _size(kind):
    """In bytes."""
    return (kind["width"] + 7) // 8 if kind["type"] == "bytes" else int(kind["type"].removeprefix("uint")) // 8


def _each(value):
    return value if isinstance(value, list) else [value]


class Service(bfruntime_pb2_grpc.BfRuntimeServicer):
    """`mute`: answers nothing any more."""

    def __init__(self, switch, program, described, fixed):
        self._switch, self._program = switch, program
        self._info = json.dumps({"tables": described}).encode(), json.dumps({"tables": fixed}).encode()
        self._names = {each["id"]: _Names(each) for each in described + fixed if switch.has(each["name"])}
        self._lock = threading.Lock()
        self.bound = []
        self.mute = threading.Event()
        self.over = threading.Event()

    def _wait_if_mute(self):
        if self.mute.is_set():
            self.over.wait(60)

    def StreamChannel(self, requests, context):
        for request in requests:
            answer = pb.StreamMessageResponse()
            answer.subscribe.device_id = request.subscribe.device_id
            answer.subscribe.status.code = code_pb2.OK
            yield answer

    def GetForwardingPipelineConfig(self, request, context):
        self._wait_if_mute()
        answer = pb.GetForwardingPipelineConfigResponse()
        answer.config.add(p4_name=self._program, bfruntime_info=self._info[0])
        answer.non_p4_config.bfruntime_info = self._info[1]
        return answer

    def SetForwardingPipelineConfig(self, request, context):
        self.bound.append(request.config[0].p4_name)
        return pb.SetForwardingPipelineConfigResponse()

    def Write(self, request, context):
        self._wait_if_mute()
        errors = []
        for update in request.updates:
            error = pb.Error()
            try:
                with self._lock:
                    self._write(update.type, update.entity.table_entry)
            except Refused as refused:
                error.canonical_code = code_pb2.RESOURCE_EXHAUSTED if refused.full else code_pb2.INVALID_ARGUMENT
                error.message = str(refused)
            errors.append(error)
        if any(error.canonical_code for error in errors):
            self._fail(context, errors)
        return pb.WriteResponse()

    def _fail(self, context, errors):
        status = status_pb2.Status(code=code_pb2.UNKNOWN)
        for error in errors:
            packed = any_pb2.Any()
            packed.Pack(error)
            status.details.append(packed)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, "of the updates")

    def _write(self, kind, entry):
        names = self._names[entry.table_id]
        keys, (values, action) = names.key(entry.key), names.values(entry.data)
        if entry.is_default_entry:
            self._switch.set_default(names.name, values, action)
        elif kind == pb.Update.INSERT:
            self._switch.add(names.name, keys, values, action)
        elif kind == pb.Update.DELETE:
            self._switch.remove(names.name, keys)
        elif kind == pb.Update.MODIFY_INC:
            (self._switch.reduce if entry.table_flags.mod_del else self._switch.extend)(names.name, keys, values)
        else:
            raise Refused(f"{names.name}: update {kind}")

    def Read(self, request, context):
        self._wait_if_mute()
        for entity in request.entities:
            try:
                with self._lock:
                    answer = self._read(entity.table_entry)
            except (Refused, Gone) as error:
                self._fail(context, [pb.Error(canonical_code=code_pb2.INVALID_ARGUMENT, message=str(error))])
            yield answer

    def _read(self, entry):
        names, answer = self._names[entry.table_id], pb.ReadResponse()
        keys = names.key(entry.key)
        if entry.is_default_entry:
            found = [({}, self._switch.default(names.name))]
        elif keys:
            found = [(keys, self._switch.read(names.name, [keys])[0])]
        else:
            found = [(dict(key), values or {}) for key, (_, values) in self._switch.entries[names.name].items()]
        for keys, values in found:
            one = answer.entities.add().table_entry
            one.table_id, one.is_default_entry = entry.table_id, entry.is_default_entry
            names.fill(one, keys, values)
            one.data.SetInParent()
        return answer


def serve(service, port=0):
    """(server, number of its port)"""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    bfruntime_pb2_grpc.add_BfRuntimeServicer_to_server(service, server)
    number = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, number
