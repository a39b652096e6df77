"""Third pass: all objects against all. Reports faults and changes nothing."""

from __future__ import annotations

from typing import Any

from . import words as w
from .ctext import TYPES, free_names, is_word, tokens
from .model import Backend, Example, Op, Param, Row, Spec
from .parse import listed
from .source import Faults, Where


def op_names(op: Op) -> list[str]:
    """The names that a row of `op` may use, in the order in which messages list them."""
    names = ["file"] if op.on == "file" else []
    names += ["buf"] if op.result == "bytes" else []
    names += ["stat"] if op.result == "stat" else []
    names += ["found"] if op.result == "handle" else []
    for param in sorted(op.params, key=lambda param: w.TYPES.index(param.type)):
        names.append(param.name)
        if param.type in ("bytes_in", "bytes_out"):
            names.append(f"{param.name}_len")
    return list(dict.fromkeys(names))


def amounts(op: Op) -> list[Param]:
    """What can say how many bytes a transfer moves; buffers before sizes."""
    buffers = [p for p in op.params if p.type in ("bytes_in", "bytes_out", "parts", "parts_out")]
    return buffers or [p for p in op.params if p.type == "size"]


# -- operations ----------------------------------------------------------------------------------


def is_reserved(name: str) -> bool:
    """Rows take such a name for a type or a function of the runtime."""
    return name.endswith("_t") or name.startswith("aya_") or name in TYPES


def check_op_name(op: Op, faults: Faults) -> None:
    if op.name in w.C_KEYWORDS | w.PYTHON_KEYWORDS | w.TAKEN_OPS:
        faults.add(op.where, f"'{op.name}' is taken in generated C or Python; choose another name")


def check_params(op: Op, faults: Faults) -> None:
    seen: set[str] = set()
    optional = ""
    own = [n for n, has in (("file", op.on == "file"), ("buf", op.result == "bytes"),
                            ("stat", op.result == "stat"),
                            ("found", op.result == "handle")) if has]
    for param in op.params:
        names = {param.name}
        if param.type in ("bytes_in", "bytes_out", "spans", "pairs"):
            names.add(f"{param.name}_len")
        for name in sorted(names):
            if name in seen or name in own:
                faults.add(param.where, f"operation '{op.name}' has two things named '{name}'")
        seen |= names
        if param.name in w.C_KEYWORDS | w.PYTHON_KEYWORDS | w.TAKEN or is_reserved(param.name):
            faults.add(param.where, f"'{param.name}' is taken in generated C or Python; "
                                    "choose another name")
        if param.default is not None:
            optional = param.name
        elif optional:
            faults.add(param.where, f"parameter '{param.name}' must have a default, or stand "
                                    f"before '{optional}', which has one")
        if param.type in ("parts", "parts_out") and op.surface == "method":
            faults.add(param.where, f"type '{param.type}' belongs to C: surface = \"stream\" or "
                                    "\"library\"")
        if param.type in ("spans", "pairs") and not op.rules.each:
            faults.add(param.where, f"type '{param.type}' belongs to a group: "
                                    "[rules] each = \"...\"")
    if op.on == "path" and not any(p.type == "path" for p in op.params):
        faults.add(op.where, f"operation '{op.name}' is on a path and has no parameter of type "
                             "path")


def check_rules(op: Op, faults: Faults) -> None:
    rules = op.rules

    def at(key: str) -> Where:
        return rules.places.get(key, rules.where)

    sizes = [p for p in op.params if p.type == "size"]
    if op.result == "bytes" and len(sizes) != 1:
        faults.add(op.where, "a result of bytes needs exactly one parameter of type size")
    if op.result == "list" and not rules.each:
        faults.add(op.where, "a result of type list needs [rules] each = \"...\"")
    if rules.each and op.result != "list":
        faults.add(at("each"), f"a group has result = \"list\", not {op.result!r}")
    if rules.short != "none":
        if op.result not in ("bytes", "count"):
            faults.add(at("short"), f"short = {rules.short!r} needs a result of bytes or count")
        elif op.result == "count" and len(amounts(op)) != 1:
            faults.add(at("short"), f"short = {rules.short!r} needs exactly one buffer or size")
    if rules.cancel == "detach" and any(p.type in ("bytes_in", "bytes_out", "parts",
                                                   "parts_out", "pairs") for p in op.params):
        faults.add(at("cancel"), "cancel = 'detach' would leave the kernel with the caller's "
                                 "memory; it is one of: wait, shield")
    if rules.order == "fence" and op.on != "file":
        faults.add(at("order"), "order = 'fence' needs an operation on a file")
    if rules.probe in ("nowait", "ready", "local") and op.on != "file":
        faults.add(at("probe"), f"probe = {rules.probe!r} needs an operation on a file")
    if rules.waits != "none" and (op.on, op.result, rules.probe) != ("file", "none", "ready"):
        faults.add(at("waits"), f"waits = {rules.waits!r} needs an operation on a file with a "
                                "result of type none and probe = 'ready'")
    if rules.probe == "cached-open" and op.result != "handle":
        faults.add(at("probe"), "probe = 'cached-open' needs a result of type handle")


def check_group(op: Op, ops: dict[str, Op], faults: Faults) -> None:
    rules, where = op.rules, op.rules.places.get("each", op.rules.where)
    if rules.probe != "none" or rules.short != "none":
        faults.add(where, "a group has no 'probe' and no 'short': its parts have them")
    child = ops.get(rules.each)
    if child is None:
        faults.add(where, f"each = {rules.each!r} is no operation; there are: {listed(ops)}")
        return
    if child.rules.each:
        faults.add(where, f"each = {rules.each!r} is a group itself")
        return
    types = sorted(p.type for p in child.params)
    wanted = {"spans": (["offset", "size"], "bytes"), "pairs": (["bytes_in", "offset"], "count")}
    kinds = [p.type for p in op.params]
    if len(kinds) != 1 or kinds[0] not in wanted:
        faults.add(op.where, "a group has one parameter, of type spans or pairs")
        return
    if (types, child.result) != wanted[kinds[0]] or op.on != "file" or child.on != "file":
        need, result = wanted[kinds[0]]
        faults.add(where, f"{kinds[0]} need an operation on a file with {' and '.join(need)} and a "
                          f"result of type {result}, which {child.name!r} is not")


# -- examples ------------------------------------------------------------------------------------


def value_fault(param: Param, value: Any) -> str:
    """What is wrong with an example's value for `param`; "" when nothing is."""
    kind = param.type
    integer = type(value) is int
    if kind in ("size", "offset", "mode", "bytes_out"):
        return "" if integer else "must be an integer"
    if kind == "flag":
        return "" if isinstance(value, bool) else "must be true or false"
    if kind == "enum":
        return "" if value in param.words else f"must be one of: {listed(param.words)}"
    if kind in ("spans", "pairs"):
        second = int if kind == "spans" else str
        good = isinstance(value, list) and all(
            isinstance(v, list) and len(v) == 2 and type(v[0]) is int and type(v[1]) is second
            for v in value
        )
        return "" if good else "must be a list of pairs"
    if kind == "parts":
        good = isinstance(value, list) and all(isinstance(v, str) for v in value)
        return "" if good else "must be a list of strings"
    if kind == "parts_out":
        good = isinstance(value, list) and all(type(v) is int for v in value)
        return "" if good else "must be a list of integers"
    if kind in ("path", "handle"):
        plain = isinstance(value, str) and is_word(value)
        return "" if plain else "must be a plain file name, beside the example's file"
    return "" if isinstance(value, str) else "must be a string"


def check_call(op: Op, example: Example, faults: Faults) -> None:
    own = next((p.name for p in op.params if p.type == "path"), "") if op.on == "path" else ""
    params = {p.name: p for p in op.params if p.name != own}
    others = [p for p in params.values() if p.type in ("path", "handle")]
    if len(others) > 1:
        faults.add(example.where, "an example can have one other file, not "
                                  f"{listed(p.name for p in others)}")
    for name, value in example.call.items():
        where = example.places.get(f"call.{name}", example.where)
        if name not in params:
            faults.add(where, f"'{name}' is no parameter of the call; it has: {listed(params)}")
            continue
        wrong = value_fault(params[name], value)
        if wrong:
            faults.add(where, f"'{name}' {wrong}")
    for param in params.values():
        if param.default is None and param.name not in example.call:
            faults.add(example.where, f"the call lacks '{param.name}', which has no default")


def check_example(op: Op, example: Example, faults: Faults) -> None:
    result, where = example.result, example.places.get("result", example.where)
    integer = type(result) is int
    good = {
        "none": result == "none",
        "handle": result == "handle",
        "count": integer,
        "stat": integer,
        "bytes": isinstance(result, (str, bytes)),
        "list": isinstance(result, list) and all(isinstance(v, (int, str)) for v in result),
    }[op.result]
    need = {"none": 'the string "none"', "handle": 'the string "handle"', "count": "an integer",
            "stat": "an integer, the size", "bytes": "a string", "list": "a list"}[op.result]
    if not example.error and not good:
        faults.add(where, f"the result of '{op.name}' must be {need}")
    for param in op.params:
        spans = example.call.get(param.name)
        if param.type in ("spans", "pairs") and isinstance(spans, list) and good:
            if not example.error and len(spans) != len(result):
                faults.add(where, f"the result has {len(result)} parts and the call {len(spans)}")
    if (example.kind == "none") != (op.on == "none"):
        faults.add(example.places.get("kind", example.where),
                   f"kind = {example.kind!r} does not fit an operation on a {op.on}")
    if example.kind == "pipe" and op.on == "path":
        faults.add(example.places["kind"], "a pipe has no path")
    if example.filled is not None and not any(
            p.type in ("bytes_out", "parts_out") for p in op.params):
        faults.add(example.places.get("filled", example.where),
                   "'filled' needs a parameter of type bytes_out or parts_out")
    others = any(p.name in example.call for p in op.params if p.type in ("path", "handle"))
    for key, value in (("other", example.other), ("after_other", example.after_other)):
        if value is not None and not others:
            faults.add(example.places.get(key, example.where),
                       f"'{key}' needs another file in the call")
    check_call(op, example, faults)


# -- backends ------------------------------------------------------------------------------------


def check_names(backend: Backend, op: Op, row: Row, faults: Faults) -> None:
    allowed = op_names(op)
    extra = w.FORM_NAMES.get(backend.form, ())
    for key in w.EXPRESSIONS[backend.form]:
        expression = row.fields.get(key, "")
        if expression.count("(") != expression.count(")"):
            faults.add(row.places[key], f"'{key}' has unequal numbers of ( and )")
        for name in free_names(expression):
            if name not in allowed and name not in extra:
                faults.add(row.places[key], f"'{name}' is no name of operation '{op.name}'; it "
                                            f"has: {listed([*allowed, *extra])}")
    opcode = row.fields.get("opcode", "")
    for token in tokens(opcode):
        if is_word(token) and token not in allowed and token not in backend.opcodes:
            faults.add(row.places["opcode"], f"'{token}' is no opcode of backend '{backend.name}' "
                       f"and no name of operation '{op.name}'; it has: "
                       f"{listed([*sorted(backend.opcodes), *allowed])}")


def lacking(backend: Backend, op: Op, row: Row) -> str:
    """What a row still needs; "" when it is whole."""
    fields, form = row.fields, backend.form
    why = fields.get("unsupported")
    if isinstance(why, str) and not any(key in fields for key in w.EXPRESSIONS[form]):
        return ""
    if form in ("sqe", "iocb"):
        return "" if "opcode" in fields else "'opcode'"
    if form in ("overlapped", "dispatch"):
        key = "call" if form == "overlapped" else "block"
        return "" if key in fields else f"'{key}'"
    if op.rules.probe not in ("none", "always") and "inline" not in fields and not backend.fallback:
        return f"'inline', which probe = {op.rules.probe!r} of the operation demands"
    if why:
        return ""
    missing = [f"'{key}'" for key in ("posix", "win32") if key not in fields]
    return f"{' and '.join(missing)}, or unsupported = \"why\"" if missing else ""


def check_row(backend: Backend, op: Op, row: Row, faults: Faults) -> None:
    via = row.fields.get("via")
    if op.rules.each:
        faults.add(row.where, f"'{op.name}' is a group and has no rows: those of "
                              f"'{op.rules.each}' serve it")
        return
    if via is not None:
        if not backend.fallback:
            faults.add(row.places["via"], f"'via' needs a fallback, and backend '{backend.name}' "
                                          "has none")
        elif via != backend.fallback:
            faults.add(row.places["via"], f"via = {via!r} is not allowed; it is one of: "
                                          f"{backend.fallback}")
        return
    if not row.fields:
        faults.add(row.where, f"[lower.{op.name}] is empty")
        return
    missing = lacking(backend, op, row)
    if missing:
        faults.add(row.where, f"[lower.{op.name}] lacks {missing}")
    if "inline" in row.fields and (op.rules.probe == "none" or backend.fallback):
        faults.add(row.places["inline"], "'inline' belongs to the backend without a fallback, in "
                                         "an operation that has a probe")
    if "only" in row.fields and not backend.fallback:
        faults.add(row.places["only"], "'only' needs a backend with a fallback")
    if row.fields.get("probe") and row.fields.get("opcode") not in backend.opcodes:
        faults.add(row.places["probe"], "probe = true needs a plain opcode")
    if row.fields.get("probe") and "asked" not in backend.hooks:
        faults.add(row.places["probe"], "probe = true needs the hook 'asked'")
    if backend.form == "sqe":
        for group in w.SQE_UNIONS:
            twice = [name for name in group if name in row.fields]
            if len(twice) > 1:
                faults.add(row.places[twice[1]], f"{listed(twice)} are one member of the entry")
    check_names(backend, op, row, faults)


def check_fallback(backend: Backend, backends: dict[str, Backend], faults: Faults) -> None:
    if not backend.fallback:
        return
    where = backend.places["fallback"]
    if backend.fallback not in backends:
        faults.add(where, f"fallback = {backend.fallback!r} is no backend; there are: "
                          f"{listed(backends)}")
        return
    seen, at = [backend.name], backend.fallback
    while at and at in backends:
        if at in seen:
            faults.add(where, f"fallback runs in a circle: {' -> '.join([*seen, at])}")
            return
        seen.append(at)
        at = backends[at].fallback
    if len(seen) > 2:
        faults.add(where, f"fallback = {backend.fallback!r} has a fallback itself")


def check_backend(backend: Backend, spec: Spec, faults: Faults) -> None:
    if backend.name in w.TAKEN_BACKENDS:
        faults.add(backend.where, f"aya_{backend.name}.c is generated for all backends; choose "
                                  "another name")
    ops = {op.name: op for op in spec.ops}
    check_fallback(backend, {b.name: b for b in spec.backends}, faults)
    for name, row in backend.rows.items():
        if name not in ops:
            faults.add(row.where, f"'{name}' is no operation; there are: {listed(ops)}")
        else:
            check_row(backend, ops[name], row, faults)
    way = "add [lower.{0}]" + (f', or there via = "{backend.fallback}"' if backend.fallback else "")
    for op in spec.ops:
        if op.name not in backend.rows and not op.rules.each:
            faults.add(backend.places["name"], f"backend '{backend.name}' has no row for operation "
                                               f"'{op.name}'; {way.format(op.name)}")


def check_options(spec: Spec, faults: Faults) -> None:
    names = [b.name for b in spec.backends]
    seen: dict[str, Where] = {}
    for option in spec.options:
        if option.name in seen:
            faults.add(option.where, f"option '{option.name}' stands at {seen[option.name]} "
                                     "already")
        seen.setdefault(option.name, option.where)
        if option.name in w.C_KEYWORDS | w.PYTHON_KEYWORDS:
            faults.add(option.where, f"'{option.name}' is taken in C or Python; choose another "
                                     "name")
        for name in option.backends:
            if name not in names:
                faults.add(option.places["backends"], f"'{name}' is no backend; there are: "
                                                      f"{listed(names)}")


def check_c_names(spec: Spec, faults: Faults) -> None:
    """Constants that would be defined twice."""
    seen = {"AYA_OP_COUNT": "the number of operations"}
    seen.update({f"AYA_OP_{op.name}".upper(): f"operation '{op.name}'" for op in spec.ops})
    for op in spec.ops:
        for param in op.params:
            for word in param.words:
                name = f"AYA_{op.name}_{word}".upper()
                owner = f"'{word}' of '{param.name}' in operation '{op.name}'"
                if name in seen:
                    faults.add(param.where, f"{owner} and {seen[name]} are both {name} in C")
                seen[name] = owner


def check(spec: Spec, faults: Faults) -> None:
    ops = {op.name: op for op in spec.ops}
    for op in spec.ops:
        check_op_name(op, faults)
        check_params(op, faults)
        check_rules(op, faults)
        if op.rules.each:
            check_group(op, ops, faults)
        for example in op.examples:
            check_example(op, example, faults)
    check_c_names(spec, faults)
    roots = [b for b in spec.backends if not b.fallback]
    for backend in roots[1:]:
        faults.add(backend.where, f"backend '{backend.name}' has no fallback; only one may have "
                                  f"none, and '{roots[0].name}' has none already")
    if not roots and spec.backends:
        faults.add(spec.backends[0].where, "no backend is without a fallback; one must be")
    if roots and roots[0].form != "call":
        faults.add(roots[0].places["form"], "the backend without a fallback must have "
                                            "form = 'call'")
    for backend in spec.backends:
        check_backend(backend, spec, faults)
    check_options(spec, faults)
