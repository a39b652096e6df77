"""The examples in parts: C initialisers for the driver in C, plain data for the tests in Python."""

from __future__ import annotations

import json
from typing import Any

from . import ctext, lower
from .model import Example, Op, Param


def pairs(ops: tuple[lower.LoweredOp, ...]) -> list[tuple[lower.LoweredOp, Example, str]]:
    """Every example with its operation and a name for what belongs to it."""
    return [(op, example, f"{op.op.name}_{number}")
            for op in ops for number, example in enumerate(op.op.examples, 1)]


def own_path(op: Op) -> str:
    """The path parameter that is the example's own file, which `call` leaves out."""
    return next((p.name for p in op.params if p.type == "path"), "") if op.on == "path" else ""


def octets(data: bytes) -> str:
    return f"{{{ctext.quoted(data)}, {len(data)}}}"


def other(op: Op, example: Example) -> Param | None:
    own = own_path(op)
    files = [p for p in op.params if p.type in ("path", "handle") and p.name != own]
    return next((p for p in files if p.name in example.call), None)


def integer(value: int) -> str:
    return f"INT64_C({value})" if abs(value) > 0x7FFFFFFF else str(value)


def argument(op: Op, param: Param, example: Example) -> list[str]:
    """C for one parameter: from the example's call, or its default."""
    if param.name == own_path(op):
        return ["call->path"]
    value = example.call.get(param.name, param.default)
    kind = param.type
    if kind in ("size", "offset"):
        return [integer(value)]
    if kind == "mode":
        return [f"0{value:o}"]
    if kind == "flag":
        return ["true" if value else "false"]
    if kind == "enum":
        return [lower.enum_word(op, value)]
    if kind == "bytes_in":
        data = value.encode()
        return [ctext.quoted(data), str(len(data))]
    if kind == "bytes_out":
        return ["call->buf", str(value)]
    if kind in ("parts", "parts_out"):
        size = sum(one if kind == "parts_out" else len(one.encode()) for one in value)
        return [f"(aya_parts){{.list = parts, .count = {len(value)}, .size = {size}}}"]
    if kind in ("spans", "pairs"):
        return ["call->spans", "call->spans_len"]
    return ["call->other_path" if kind == "path" else "call->other_file"]


def arguments(op: lower.LoweredOp, example: Example) -> list[str]:
    values = ["op"] + (["call->file"] if op.op.on == "file" else [])
    for param in op.op.params:
        values += argument(op.op, param, example)
    return values + {"bytes": ["call->buf", "call->buf_size"],
                     "stat": ["call->stat"]}.get(op.op.result, [])


def span(value: list[Any]) -> str:
    offset, second = value
    if isinstance(second, str):
        data = second.encode()
        return f"{{.offset = {integer(offset)}, .size = {len(data)}, .buf = {ctext.quoted(data)}}}"
    return f"{{.offset = {integer(offset)}, .size = {integer(second)}}}"


def spans(op: Op, example: Example) -> list[str]:
    found = [p.name for p in op.params if p.type in ("spans", "pairs")]
    return [span(v) for v in example.call[found[0]]] if found else []


def parts(op: Op, example: Example) -> list[str]:
    """The initialisers of an aya_part each; those that are read into lie behind each other."""
    made = []
    for param in op.params:
        if param.type == "parts":
            data = [v.encode() for v in example.call[param.name]]
            made += [f"{{.data = {ctext.quoted(one)}, .size = {len(one)}}}" for one in data]
        elif param.type == "parts_out":
            sizes = example.call[param.name]
            made += [f"{{.data = room + {sum(sizes[:i])}, .size = {size}}}"
                     for i, size in enumerate(sizes)]
    return made


def reads_into_parts(op: Op) -> bool:
    return any(p.type == "parts_out" for p in op.params)


def as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def items(example: Example) -> list[str]:
    """An expected list: bytes or counts."""
    if not isinstance(example.result, list):
        return []
    return [f"{{.count = {v}}}" if isinstance(v, int) else f"{{.bytes = {octets(v.encode())}}}"
            for v in example.result]


def fields(op: Op, example: Example, name: str) -> list[str]:
    """The initialisers of an aya_example."""
    out = [f".where = {ctext.quoted(str(example.where))}", f".code = {lower.code(op.name)}",
           f".kind = AYA_EXAMPLE_{example.kind.upper()}"]
    if example.becomes:
        out.append(f".becomes = AYA_BECOMES_{example.becomes.upper()}")
    out.append(f".file = {octets(example.file)}")
    for key in ("other", "after", "after_other", "filled"):
        data = getattr(example, key)
        if data is not None:
            out.append(f".{key} = {octets(data)}")
    beside = other(op, example)
    if beside:
        out.append(f".other_name = {ctext.quoted(example.call[beside.name])}")
        if beside.type == "handle":
            out.append(".other_is_open = true")
    if example.error:
        out.append(f".error = {example.error}")
    elif op.result in ("count", "stat"):
        out.append(f".count = {integer(example.result)}")
    elif op.result == "bytes":
        out.append(f".bytes = {octets(as_bytes(example.result))}")
    if spans(op, example):
        out += [f".spans = spans_{name}", f".spans_len = {len(spans(op, example))}"]
    if items(example):
        out.append(f".items = items_{name}")
    return out + [f".fill = fill_{name}"]


# -- for Python ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """JSON has no bytes: they are {"hex": "..."}."""
    if isinstance(value, (bytes, str)):
        return {"hex": as_bytes(value).hex()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def plain_argument(param: Param, value: Any) -> Any:
    if param.type in ("bytes_in", "parts", "spans", "pairs"):
        return plain(value)
    return value


def plain_example(op: Op, example: Example) -> dict[str, Any]:
    params = {p.name: p for p in op.params}
    beside = other(op, example)
    made: dict[str, Any] = {
        "where": str(example.where), "op": op.name, "on": op.on, "surface": op.surface,
        "kind": example.kind, "file": plain(example.file),
        "call": {k: plain_argument(params[k], v) for k, v in example.call.items()},
        "buffers": [p.name for p in op.params if p.type == "bytes_out"],
        "other": {"param": beside.name, "type": beside.type} if beside else None,
        "writes": any(p.type in ("bytes_in", "parts", "pairs") for p in op.params),
        "returns": op.result,
    }
    if example.error:
        made["error"] = example.error
    elif op.result in ("bytes", "list"):
        made["result"] = plain(example.result)
    else:
        made["result"] = example.result
    for name in ("other", "after", "after_other", "filled"):
        data = getattr(example, name)
        if data is not None:
            made["other_file" if name == "other" else name] = plain(data)
    if example.becomes:
        made["becomes"] = example.becomes
    return made


def as_json(ops: tuple[lower.LoweredOp, ...]) -> str:
    made = [plain_example(op.op, example) for op, example, _ in pairs(ops)]
    lines = ",\n".join("  " + json.dumps(one) for one in made)
    return f"[\n{lines}\n]\n"
