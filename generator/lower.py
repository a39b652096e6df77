"""Fourth pass: operation x row becomes a C function in parts; an operation becomes its C members.

One small function a form. Writes no file; the templates put the parts together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

from . import ctext
from . import words as w
from .check import amounts
from .model import Backend, Op, Param, Row, Spec

CONDITIONS = {"win32": "defined(_WIN32)", "darwin": "defined(__APPLE__)"}


@dataclass(frozen=True)
class Branch:
    """Code of one platform; `condition` is "" for the last."""

    condition: str
    locals: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Function:
    """One operation's C in one backend: locals that all platforms use, then a branch a platform."""

    op: Op
    where: str
    common: tuple[str, ...]
    branches: tuple[Branch, ...]
    uses_op: bool


@dataclass(frozen=True)
class LoweredOp:
    op: Op
    code: str
    members: tuple[str, ...]
    arguments: tuple[str, ...]
    values: tuple[str, ...]
    total: str  # C for the bytes asked for; "" where the operation moves none
    offset: str  # C for where in the file it moves bytes; "" where that is nowhere of its own
    child: Op | None
    child_values: tuple[str, ...]
    errors: tuple[tuple[str, tuple[str, ...]], ...]  # kind, errno names
    changes: bool
    gives: bool  # bytes of the file to the caller
    takes: bool  # bytes of the caller to the file
    streams: bool  # at the descriptor's own position: a transfer can wait for readiness


@dataclass(frozen=True)
class LoweredBackend:
    backend: Backend
    functions: tuple[Function, ...]
    inline: tuple[Function, ...]
    rows: tuple[tuple[str, str, str], ...]  # operation code, AYA_ROW_..., where it is refused
    asked: tuple[tuple[str, str, int], ...]  # operation code, opcode's name, its number
    opcodes: tuple[tuple[str, int], ...]  # C name, number


@dataclass(frozen=True)
class Lowered:
    ops: tuple[LoweredOp, ...]
    backends: tuple[LoweredBackend, ...]  # in order of rank
    spec: Spec

    def root(self) -> LoweredBackend:
        return next(b for b in self.backends if not b.backend.fallback)


# -- operations ----------------------------------------------------------------------------------


def code(name: str) -> str:
    return f"AYA_OP_{name.upper()}"


def enum_type(op: Op, param: Param) -> str:
    return f"aya_{op.name}_{param.name}"


def enum_word(op: Op, word: str) -> str:
    return f"AYA_{op.name}_{word}".upper()


def declare(op: Op, param: Param) -> tuple[str, ...]:
    """The parameter's C declarations, without semicolon."""
    name = param.name
    return {
        "size": (f"int64_t {name}",),
        "offset": (f"int64_t {name}",),
        "flag": (f"bool {name}",),
        "enum": (f"{enum_type(op, param)} {name}",),
        "mode": (f"uint32_t {name}",),
        "bytes_in": (f"const void *{name}", f"size_t {name}_len"),
        "bytes_out": (f"void *{name}", f"size_t {name}_len"),
        "parts": (f"aya_parts {name}",),
        "parts_out": (f"aya_parts {name}",),
        "path": (f"const aya_path_char *{name}",),
        "handle": (f"aya_file *{name}",),
        "spans": (f"aya_span *{name}", f"size_t {name}_len"),
        "pairs": (f"aya_span *{name}", f"size_t {name}_len"),
    }[param.type]


def declared_name(declaration: str) -> str:
    return declaration.replace("*", " ").split()[-1]


def result_arguments(op: Op) -> tuple[str, ...]:
    if op.result == "bytes":
        return ("void *buf", "size_t buf_size")
    return ("aya_stat_raw *stat",) if op.result == "stat" else ()


def initialisers(op: Op, members: tuple[str, ...]) -> tuple[str, ...]:
    values = [f".code = {code(op.name)}"]
    if op.on == "file":
        values.append(".file = file")
    if op.result == "bytes":
        values += [".buf = buf", ".buf_size = buf_size"]
    if op.result == "stat":
        values += [".buf = stat", ".buf_size = sizeof(*stat)"]
    if members:
        fields = ", ".join(f".{declared_name(m)} = {declared_name(m)}" for m in members)
        values.append(f".args.{op.name} = {{{fields}}}")
    return tuple(values)


def total(op: Op) -> str:
    if op.rules.each or (op.result != "bytes" and op.rules.short == "none" and not any(
            p.type in ("bytes_in", "bytes_out", "parts", "parts_out") for p in op.params)):
        return ""
    param = amounts(op)[0]
    if param.type == "size":
        return f"op->args.{op.name}.{param.name}"
    if param.type in ("parts", "parts_out"):
        return f"(int64_t)op->args.{op.name}.{param.name}.size"
    return f"(int64_t)op->args.{op.name}.{param.name}_len"


def offset(op: Op) -> str:
    """Of an operation that moves bytes: where it begins."""
    names = [p.name for p in op.params if p.type == "offset"]
    return f"op->args.{op.name}.{names[0]}" if total(op) and names else ""


def child_values(child: Op | None) -> tuple[str, ...]:
    """Arguments of the constructor that makes a group's part from its span."""
    if child is None:
        return ()
    values = ["child", "group->file"]
    for param in child.params:
        values += {"offset": ["span->offset"], "size": ["span->size"],
                   "bytes_in": ["span->buf", "(size_t)span->size"]}[param.type]
    if child.result == "bytes":
        values += ["span->buf", "span->buf_size"]
    return tuple(values)


def errors(op: Op, unsupported: bool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The [errors] table by kind; a row that says `unsupported` gives ENOTSUP."""
    kinds: dict[str, list[str]] = {}
    for name, kind in sorted(op.errors.items()):
        kinds.setdefault(kind, []).append(name)
    names = kinds.setdefault("unsupported", []) if unsupported else []
    if unsupported and "ENOTSUP" not in names:
        names.append("ENOTSUP")
    return tuple((kind, tuple(names)) for kind, names in sorted(kinds.items()))


def lower_op(op: Op, ops: dict[str, Op], unsupported: bool) -> LoweredOp:
    members = tuple(d for p in op.params for d in declare(op, p))
    types = {p.type for p in op.params}
    first = ("aya_file *file",) if op.on == "file" else ()
    whole = ops.get(op.rules.each, op)
    moves = whole.on == "file"
    return LoweredOp(
        op=op,
        code=code(op.name),
        members=members,
        arguments=("aya_op *op", *first, *members, *result_arguments(op)),
        values=initialisers(op, members),
        total=total(op),
        offset=offset(op),
        child=ops.get(op.rules.each),
        child_values=child_values(ops.get(op.rules.each)),
        errors=errors(op, unsupported),
        changes=bool(types & {"bytes_in", "parts", "pairs"}) or op.rules.order == "fence",
        gives=moves and (whole.result == "bytes" or bool(types & {"bytes_out", "parts_out"})),
        takes=moves and bool(types & {"bytes_in", "parts", "pairs"}),
        streams=moves and not types & {"offset", "spans", "pairs"},
    )


# -- named locals --------------------------------------------------------------------------------


def local_declarations(op: Op) -> dict[str, str]:
    """Name → the declaration that a generated function starts with when it uses the name."""
    made: dict[str, str] = {}
    moves = op.rules.short != "none"
    if op.on == "file":
        made["file"] = "const aya_handle file = op->file->io;"
    if op.result == "bytes":
        made["buf"] = "void *const buf = aya_past(op->buf, op->done);"
    if op.result == "stat":
        made["stat"] = "aya_stat_raw *const stat = op->buf;"
    if op.result == "handle":
        made["found"] = "aya_file *const found = op->buf;"
    for param in op.params:
        made.update(param_locals(op, param, moves))
    return {name: folded(line) for name, line in made.items()}


def folded(line: str) -> str:
    if len(line) + 4 <= ctext.WIDTH:
        return line
    return line.replace(" = ", " =\n        ", 1)


def param_locals(op: Op, param: Param, moves: bool) -> dict[str, str]:
    name, kind = param.name, param.type
    arg = f"op->args.{op.name}.{name}"
    if kind == "offset":
        return {name: f"const int64_t {name} = {arg}{' + op->done' if moves else ''};"}
    if kind == "size":
        if op.result == "bytes":
            return {name: f"const size_t {name} = aya_room(op, {arg}, TRANSFER_LIMIT);"}
        if moves and amounts(op)[0].name == name:
            return {name: f"const size_t {name} = aya_left({arg}, op->done, TRANSFER_LIMIT);"}
        return {name: f"const int64_t {name} = {arg};"}
    if kind in ("bytes_in", "bytes_out"):
        const = "const " if kind == "bytes_in" else ""
        return {
            name: f"{const}void *const {name} = aya_past({arg}, op->done);",
            f"{name}_len": f"const size_t {name}_len = "
                           f"aya_left((int64_t){arg}_len, op->done, TRANSFER_LIMIT);",
        }
    if kind in ("parts", "parts_out"):
        return {name: f"const aya_parts {name} = aya_parts_past({arg}, op->done);"}
    types = {"flag": "const bool", "enum": "const int", "mode": "const uint32_t",
             "path": "const aya_path_char *const", "handle": "const aya_handle"}
    cast = "(int)" if kind == "enum" else ""
    tail = "->io" if kind == "handle" else ""
    gap = "" if types.get(kind, "").endswith("*") else " "
    return {name: f"{types[kind]}{gap}{name} = {cast}{arg}{tail};"} if kind in types else {}


def used(op: Op, expressions: Iterable[str]) -> tuple[str, ...]:
    names = {name for e in expressions for name in ctext.free_names(e)}
    return tuple(line for name, line in local_declarations(op).items() if name in names)


# -- forms ---------------------------------------------------------------------------------------


def returned(expression: str, error_returned: bool, indent: int = 4) -> tuple[str, ...]:
    """C that ends a function by a call's result, as >= 0 or -errno."""
    if expression.startswith("aya_"):
        return split_call("return ", expression, ";", indent)
    if error_returned:
        return split_call("return -(int64_t)", expression, ";", indent)
    return (*split_call("const int64_t result = ", expression, ";", indent), "",
            "return result < 0 ? -errno : result;")


def split_call(head: str, expression: str, tail: str, indent: int) -> tuple[str, ...]:
    text = f"{head}{expression}{tail}"
    if len(text) + indent <= ctext.WIDTH:
        return (text,)
    cut = text.rindex(", ", 0, ctext.WIDTH - indent) + 1
    return (text[:cut], "    " + text[cut:].lstrip())


def platform_branches(op: Op, row: Row) -> list[tuple[str, str, tuple[str, ...]]]:
    """(condition, expression, lines) a platform, the last without a condition."""
    fields = row.fields
    why = fields.get("unsupported", {})
    branches = []
    for platform in ("win32", "darwin", "posix"):
        expression = fields.get(platform, "")
        refused = platform in why if isinstance(why, dict) else bool(why) and not expression
        if platform == "darwin" and not expression and not (isinstance(why, dict) and refused):
            continue
        if refused:
            lines: tuple[str, ...] = ("return -ENOTSUP;",)
            expression = ""
        else:
            by_value = fields.get("returns") == "errno" and platform != "win32"
            lines = returned(expression, by_value)
        branches.append((CONDITIONS.get(platform, ""), expression, lines))
    return branches


def build(op: Op, row: Row, parts: list[tuple[str, str, tuple[str, ...]]]) -> Function:
    sets = [used(op, [expression]) for _, expression, _ in parts]
    alike = all(s == sets[0] for s in sets)
    merged = len({lines for _, _, lines in parts}) == 1
    if merged:
        parts, sets, alike = parts[-1:], sets[-1:], True
        parts = [("", parts[0][1], parts[0][2])]
    branches: list[Branch] = []
    for (condition, _, lines), own in zip(parts, sets):
        branch = Branch(condition, () if alike else own, lines)
        if branches and (branches[-1].locals, branches[-1].lines) == (branch.locals, lines):
            both = f"{branches[-1].condition} || {condition}" if condition else ""
            branches[-1] = Branch(both, branch.locals, lines)
        else:
            branches.append(branch)
    return Function(op, str(row.where), sets[0] if alike else (), tuple(branches), any(sets))


def lower_call(op: Op, row: Row, backend: Backend) -> Function:
    return build(op, row, platform_branches(op, row))


def lower_inline(op: Op, row: Row) -> Function | None:
    expression = row.fields.get("inline", "")
    if expression:
        parts = [(CONDITIONS["win32"], "", ("return -EAGAIN;",)),
                 ("", expression, returned(expression, row.fields.get("returns") == "errno"))]
        return build(op, row, parts)
    if op.rules.probe == "always":
        return build(op, row, platform_branches(op, row))
    return None


def opcode_names(expression: str, backend: Backend) -> str:
    out = "".join(
        f"AYA_{backend.name.upper()}_{t}" if t in backend.opcodes else t
        for t in ctext.TOKEN.findall(expression)
    )
    return out


def is_pointer(op: Op, name: str) -> bool:
    kinds = {p.name: p.type for p in op.params}
    return kinds.get(name) in ("bytes_in", "bytes_out", "path") or (
        name, op.result) in (("buf", "bytes"), ("stat", "stat"), ("found", "handle"))


def converted(op: Op, expression: str, kind: str) -> str:
    """The expression as a value of the member's type, without a cast that says nothing."""
    names = ctext.free_names(expression)
    pointer = expression.startswith('"') or (expression in names and is_pointer(op, expression))
    simple = ctext.is_word(expression) or expression.isdigit() or expression.startswith('"')
    body = expression if simple else f"({expression})"
    if pointer:
        return f"({kind})(uintptr_t){body}"
    if kind == "int32_t" and simple:
        return expression
    return expression if expression.startswith(f"({kind})") else f"({kind}){body}"


def lower_members(op: Op, row: Row, backend: Backend) -> Function:
    sqe = backend.form == "sqe"
    pairs = [(k, row.fields[k]) for k in ("opcode", *w.EXPRESSIONS[backend.form])
             if k in row.fields]
    lines = []
    for key, expression in pairs:
        if key == "opcode":
            value = opcode_names(expression, backend)
            if not ctext.is_word(expression):
                value = f"({'uint8_t' if sqe else 'uint16_t'})({value})"
            member = "opcode" if sqe else "aio_lio_opcode"
        else:
            member, kind = (key, w.SQE_MEMBERS[key]) if sqe else w.IOCB_MEMBERS[key]
            value = converted(op, expression, kind)
        lines.append(f"{'sqe' if sqe else 'iocb'}->{member} = {value};")
    return Function(op, str(row.where), used(op, [e for _, e in pairs]),
                    (Branch("", (), tuple(lines)),), True)


def lower_overlapped(op: Op, row: Row, backend: Backend) -> Function:
    call, offset = row.fields["call"], row.fields.get("offset", "")
    lines = []
    if offset:
        lines += [f"const uint64_t at = {converted(op, offset, 'uint64_t')};", "",
                  "overlapped->Offset = (DWORD)at;",
                  "overlapped->OffsetHigh = (DWORD)(at >> 32);"]
    lines += split_call("return ", f"started(op, {call})", ";", 4)
    return Function(op, str(row.where), used(op, [call, offset]), (Branch("", (), tuple(lines)),),
                    True)


def lower_block(op: Op, row: Row, backend: Backend) -> Function:
    block = row.fields["block"]
    ended = f"aya_{backend.name}_ended(job, "
    if block.startswith("aya_"):
        lines = split_call(ended, block, ");", 8)
    elif row.fields.get("returns") == "errno":
        lines = split_call(f"{ended}-(int64_t)", block, ");", 8)
    else:
        lines = (*split_call("const int64_t result = ", block, ";", 8), "",
                 f"{ended}result < 0 ? -errno : result);")
    return Function(op, str(row.where), used(op, [block]), (Branch("", (), tuple(lines)),), True)


FORMS = {"sqe": lower_members, "iocb": lower_members, "call": lower_call,
         "overlapped": lower_overlapped, "dispatch": lower_block}


def row_word(op: Op, row: Row | None, backend: Backend) -> str:
    if row is None or "via" in row.fields:
        return "AYA_ROW_VIA"
    if "unsupported" in row.fields and not has_code(row, backend):
        return "AYA_ROW_UNSUPPORTED"
    if "only" in row.fields:
        return "AYA_ROW_DIRECT"
    return "AYA_ROW_ASKED" if row.fields.get("probe") else "AYA_ROW_OWN"


def refusing(row: Row | None) -> str:
    """The condition of the platforms for which a row has a reason instead of code."""
    why = row.fields.get("unsupported") if row else None
    platforms = sorted(why) if isinstance(why, dict) else []
    return " || ".join(CONDITIONS[platform] for platform in platforms if platform in CONDITIONS)


def has_code(row: Row, backend: Backend) -> bool:
    return any(key in row.fields for key in w.EXPRESSIONS[backend.form])


def lower_backend(backend: Backend, ops: tuple[Op, ...]) -> LoweredBackend:
    functions, inline, asked = [], [], []
    for op in ops:
        row = backend.rows.get(op.name)
        if row is None or not has_code(row, backend):
            continue
        functions.append(FORMS[backend.form](op, row, backend))
        probe = None if backend.form != "call" else lower_inline(op, row)
        if probe is not None:
            inline.append(probe)
        if row.fields.get("probe"):
            opcode = row.fields["opcode"]
            asked.append((code(op.name), opcode, backend.opcodes[opcode]))
    rows = tuple((code(op.name), row_word(op, backend.rows.get(op.name), backend),
                  refusing(backend.rows.get(op.name))) for op in ops)
    opcodes = tuple((f"AYA_{backend.name.upper()}_{name}", number)
                    for name, number in sorted(backend.opcodes.items(), key=lambda i: i[1]))
    return LoweredBackend(backend, tuple(functions), tuple(inline), rows, tuple(asked), opcodes)


def lower(spec: Spec) -> Lowered:
    ops = tuple(sorted(spec.ops, key=lambda op: op.name))
    named = {op.name: op for op in ops}
    unsupported = {row.op for b in spec.backends for row in b.rows.values()
                   if "unsupported" in row.fields}
    backends = sorted(spec.backends, key=lambda b: (b.rank, b.name))
    return Lowered(
        ops=tuple(lower_op(op, named, op.name in unsupported) for op in ops),
        backends=tuple(lower_backend(b, ops) for b in backends),
        spec=spec,
    )


