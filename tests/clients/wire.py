"""Our .proto against the stubs that pyzeebe carries: each of their rpcs, fields, numbers and types must be ours."""

import re

from google.protobuf import descriptor_pb2
from pyzeebe.proto import gateway_pb2

import harness

PROTO = harness.HERE / "../../src/zeebe/proto/gateway.proto"
FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {name: getattr(FIELD, f"TYPE_{name.upper()}") for name in ("int32", "int64", "uint64", "string", "bytes", "bool")}


def ours():
    """{(message, number): (name, type or None, repeated, optional)} and {rpc: (request, reply, streams)} of the text."""
    fields, rpcs, scope = {}, {}, []
    for line in PROTO.read_text().splitlines():
        line = line.split("//")[0].strip()
        if opened := re.fullmatch(r"(message|enum|service|oneof) (\w+) \{(\})?", line):
            if not opened[3]:
                scope.append((opened[1], opened[2]))
        elif line == "}":
            scope.pop()
        elif rpc := re.fullmatch(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\);", line):
            rpcs[rpc[1]] = (rpc[2], rpc[4], bool(rpc[3]))
        elif field := re.fullmatch(r"(repeated |optional )?([\w.]+) (\w+) = (\d+);", line):
            owner = ".".join(name for kind, name in scope if kind != "oneof")
            label, kind, name, number = field.groups()
            fields[owner, int(number)] = (name.replace("_", "").lower(), SCALARS.get(kind), label == "repeated ", label == "optional ")
        elif value := re.fullmatch(r"(\w+) = (\d+);", line):
            fields[".".join(name for _, name in scope), int(value[2])] = value[1]
        elif line and not re.match(r"(syntax|package|reserved) ", line):
            raise AssertionError(f"not understood: {line}")
    return fields, rpcs


def theirs():
    file = descriptor_pb2.FileDescriptorProto()
    gateway_pb2.DESCRIPTOR.CopyToProto(file)
    fields = {}

    def walk(prefix, message):
        owner = f"{prefix}{message.name}"
        for field in message.field:
            kind = field.type if field.type in SCALARS.values() else None
            name = field.name.replace("_", "").lower()
            fields[owner, field.number] = (name, kind, field.label == FIELD.LABEL_REPEATED, field.proto3_optional)
        for enum in message.enum_type:
            fields.update({(f"{owner}.{enum.name}", value.number): value.name for value in enum.value})
        for nested in message.nested_type:
            walk(f"{owner}.", nested)

    for message in file.message_type:
        walk("", message)
    short = lambda name: name.rsplit(".", 1)[1]
    rpcs = {m.name: (short(m.input_type), short(m.output_type), m.server_streaming) for m in file.service[0].method}
    return (file.package, file.service[0].name), fields, rpcs


@harness.case
def every_field_and_rpc_of_theirs_is_ours():
    (package, service), fields, rpcs = theirs()
    assert (package, service) == ("gateway_protocol", "Gateway")
    our_fields, our_rpcs = ours()
    assert len(fields) > 180 and len(rpcs) > 20, (len(fields), len(rpcs))
    differing = {key: (value, our_fields.get(key)) for key, value in fields.items() if our_fields.get(key) != value}
    assert not differing, differing
    differing = {key: (value, our_rpcs.get(key)) for key, value in rpcs.items() if our_rpcs.get(key) != value}
    assert not differing, differing


harness.main("wire")
