"""The Python side of an operation in parts: its wrapper's C, docstring and types in the stub."""

from __future__ import annotations

from . import ctext, lower
from .model import Op, Param

PHRASES = {
    "size": "int", "offset": "int", "flag": "bool", "enum": "str", "mode": "int",
    "bytes_in": "bytes-like object", "bytes_out": "writable bytes-like object",
    "parts": "list of bytes-like objects", "parts_out": "list of writable bytes-like objects",
    "path": "str, bytes or os.PathLike", "handle": "AsyncFile",
    "spans": "iterable of (offset, size)", "pairs": "iterable of (offset, data)",
}
STUB_TYPES = {
    "size": "int", "offset": "int", "flag": "bool", "mode": "int",
    "bytes_in": "ReadableBuffer", "bytes_out": "WriteableBuffer",
    "path": "StrOrBytesPath", "handle": "AsyncFile[Any]",
    "spans": "Iterable[tuple[int, int]]", "pairs": "Iterable[tuple[int, ReadableBuffer]]",
}
RESULTS = {
    "none": "None", "count": "int", "bytes": "bytes", "handle": "int",
    "stat": "os.stat_result",
}
GIVES = {
    "none": "None", "count": "the number of bytes, an int", "bytes": "bytes",
    "list": "a list", "handle": "a descriptor, an int", "stat": "an os.stat_result",
}
ENDS = {
    "resume": "Moves all of it or raises.",
    "resume-until-eof": "Moves less only where the file ends, and nothing at its end.",
}
CANCELS = {
    "detach": "A cancel ends the wait at once.",
    "wait": "A cancel ends the wait when the system has let go of the memory.",
    "shield": "A cancel ends the wait only; what was begun goes on.",
}
ERRORS = {
    "unsupported": "io.UnsupportedOperation",
    "closed": "ValueError",
}


def methods(ops: tuple[lower.LoweredOp, ...]) -> list[lower.LoweredOp]:
    return [op for op in ops if op.op.surface == "method" and op.op.on == "file"]


def functions(ops: tuple[lower.LoweredOp, ...]) -> list[lower.LoweredOp]:
    return [op for op in ops if op.op.surface == "method" and op.op.on != "file"]


# -- docstrings and stub -------------------------------------------------------------------------


def default(param: Param) -> str:
    return oct(param.default) if param.type == "mode" else repr(param.default)


def signature(op: Op) -> str:
    first = "$self" if op.on == "file" else "$module"
    params = [p.name if p.default is None else f"{p.name}={default(p)}" for p in op.params]
    return f"{op.name}({', '.join([first, '/', *params])})"


def param_text(param: Param) -> str:
    """`size: int = -1. Most bytes ...` with the words of an enum."""
    given = "" if param.default is None else f" = {default(param)}"
    words = f" One of: {', '.join(param.words)}." if param.words else ""
    return f"{param.name}: {PHRASES[param.type]}{given}. {param.doc}{words}"


def raises(op: lower.LoweredOp) -> str:
    special = [f"{ERRORS[kind]} for {' and '.join(names)}" for kind, names in op.errors]
    where = "OSError with errno" + ("" if op.op.on == "none" else " and file name")
    return f"Raises {where}{''.join(', ' + s for s in special)}."


def docstring(op: lower.LoweredOp) -> str:
    params = "".join(ctext.paragraph(param_text(p), 79, "", "    ") + "\n" for p in op.op.params)
    whole = op.child or op.op
    facts = [f"Gives {GIVES[op.op.result]}.", ENDS.get(whole.rules.short, ""), raises(op),
             CANCELS[op.op.rules.cancel]]
    return (f"{signature(op.op)}\n--\n\n{ctext.paragraph(op.op.summary, 79)}\n"
            f"{chr(10) if params else ''}{params}\n"
            f"{ctext.paragraph(' '.join(fact for fact in facts if fact), 79)}")


def stub_type(op: lower.LoweredOp) -> str:
    if op.child is not None:
        return f"list[{RESULTS[op.child.result]}]"
    return RESULTS[op.op.result]


def stub_params(op: Op) -> list[str]:
    out = ["self"] if op.on == "file" else []
    for param in op.params:
        words = ", ".join(f'"{word}"' for word in param.words)
        kind = STUB_TYPES.get(param.type) or f"Literal[{words}]"
        given = "" if param.default is None else f" = {stub_default(param)}"
        out.append(f"{param.name}: {kind}{given}")
    return out


def stub_docstring(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""'


def stub_default(param: Param) -> str:
    return f'"{param.default}"' if param.type == "enum" else default(param)


# -- wrappers in C -------------------------------------------------------------------------------


def c_default(op: Op, param: Param) -> str:
    value = param.default
    if param.type == "flag":
        return "true" if value else "false"
    if param.type == "enum":
        return lower.enum_word(op, value or param.words[0])
    if param.type == "mode":
        return f"0{value or 0:o}"
    return str(value or 0)


def c_locals(op: Op, param: Param) -> list[str]:
    name = param.name
    if param.type == "enum":
        return [f"int {name} = {c_default(op, param)};"]
    kinds = {"size": "int64_t", "offset": "int64_t", "flag": "bool", "mode": "uint32_t"}
    if param.type in kinds:
        return [f"{kinds[param.type]} {name} = {c_default(op, param)};"]
    return [f"{d} = {'0' if d.startswith('size_t') else 'NULL'};" for d in lower.declare(op, param)]


def take(op: Op, index: int) -> str:
    """The condition under which an argument was refused."""
    param = op.params[index]
    name = param.name
    targets = [f"&{lower.declared_name(d)}" for d in lower.declare(op, param)]
    if param.type == "enum":
        targets = [f"{name}_words", str(len(param.words)), f"&{name}"]
    items = ["operation", f"values[{index}]", f'"{name}"', *targets]
    given = f"aya_take_{param.type}({', '.join(items)}) < 0"
    return given if param.default is None else f"(values[{index}] != NULL && {given})"


def takes(op: Op) -> str:
    """All of them as one condition, a line each."""
    lines = [wrap_condition(take(op, index)) for index in range(len(op.params))]
    return "\n        || ".join(lines)


def wrap_condition(text: str) -> str:
    if len(text) + 13 <= ctext.WIDTH:
        return text
    if " && " in text and len(text.split(" && ")[1]) + 16 <= ctext.WIDTH:
        return text.replace(" && ", "\n            && ")
    cut = text.rindex(", ", 0, ctext.WIDTH - 16) + 1
    return f"{text[:cut]}\n            {text[cut:].lstrip()}"


def constructor(op: lower.LoweredOp) -> list[str]:
    """Arguments of the constructor, after which the Operation begins."""
    values = ["aya_operation_op(operation)"]
    if op.op.on == "file":
        values.append("aya_operation_file(operation)")
    kinds = {p.name: p for p in op.op.params}
    for member in op.members:
        name = lower.declared_name(member)
        enum = name in kinds and kinds[name].type == "enum"
        values.append(f"({lower.enum_type(op.op, kinds[name])}){name}" if enum else name)
    return values + {"bytes": ["NULL", "0"], "stat": ["NULL"]}.get(op.op.result, [])
