"""What --explain and --dump print: an operation's way through the backends, the lowered form."""

from __future__ import annotations

import sys

from .lower import Function, Lowered


def explain(lowered: Lowered, name: str) -> int:
    ops = {op.op.name: op.op for op in lowered.ops}
    if name not in ops:
        print(f"'{name}' is no operation; there are: {', '.join(ops)}", file=sys.stderr)
        return 1
    op = ops[name]
    print(f"{op.name}: {op.summary}  ({op.where})")
    for param in op.params:
        default = "" if param.default is None else f" = {param.default!r}"
        print(f"  {param.name}: {param.type}{default}  {param.doc}")
    rules = op.rules
    print(f"  -> {op.result}; short {rules.short}, retry {' '.join(rules.retry) or 'nothing'}, "
          f"cancel {rules.cancel}, order {rules.order}, probe {rules.probe}")
    if rules.each:
        print(f"  many of {rules.each}, whose rows serve it")
        return explain(lowered, rules.each)
    for backend in lowered.backends:
        row = backend.backend.rows[op.name]
        print(f"  {backend.backend.name}  ({row.where})")
        for key, value in row.fields.items():
            print(f"    {key}: {value}")
    return 0


def function_text(kind: str, function: Function) -> str:
    lines = [f"{kind} {function.op.name}  ({function.where})"]
    lines += [f"    {line}" for line in function.common]
    for branch in function.branches:
        lines.append(f"  on {branch.condition or 'any other'}:")
        lines += [f"    {line}" for line in (*branch.locals, *branch.lines) if line]
    return "\n".join(lines) + "\n"


def dump(lowered: Lowered, only: str | None) -> str:
    out = []
    for backend in lowered.backends:
        name = backend.backend.name
        if only not in (None, name):
            continue
        out += [f"{name}: {code} {row}\n" for code, row, _ in backend.rows]
        out += [function_text(name, function) for function in backend.functions]
        out += [function_text(f"{name} inline", function) for function in backend.inline]
    return "".join(out)
