"""Words of the generated pages docs/operations.md and docs/configuration.md."""

from __future__ import annotations

from typing import Any

from . import lower, python
from .model import Op, Option, Row
from .words import EXPRESSIONS

PROBES = {
    "none": "",
    "nowait": "Tried inline first, by a call that does not wait.",
    "ready": "Tried inline first where readiness can be watched (pipes, terminals, sockets).",
    "cached-open": "Tried inline first, for paths that are cached on a local filesystem.",
    "local": "Run inline on a local filesystem.",
    "always": "Always run inline: it never waits.",
}


def python_place(op: Op) -> str:
    if op.surface != "method":
        return {"stream": "stream", "library": "libaya"}[op.surface]
    owner = "AsyncFile" if op.on == "file" else "ayafileio"
    return f"`{owner}.{op.name}`"


def facts(op: lower.LoweredOp) -> list[str]:
    rules = op.op.rules
    whole = op.child or op.op
    lines = [
        f"Gives {python.GIVES[op.op.result]}. {python.raises(op)}",
        python.ENDS.get(whole.rules.short, ""),
        python.CANCELS[rules.cancel],
        "Runs after the file's earlier operations and before its later ones."
        if rules.order == "fence" else "",
        f"Waits until the file is {rules.waits}, on no thread." if rules.waits != "none" else "",
        PROBES[rules.probe],
        f"Made again after {' or '.join(whole.rules.retry)}." if whole.rules.retry else "",
        f"Many of [`{op.child.name}`](#{op.child.name})." if op.child else "",
    ]
    return [line for line in lines if line]


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def code(text: str) -> str:
    return cell(f"`{text}`")


def way(row: Row | None, op: lower.LoweredOp, form: str, fallback: str) -> str:
    if row is None:
        assert op.child is not None
        return f"the rows of `{op.child.name}`"
    fields = row.fields
    if "via" in fields:
        return f"{fields['via']}"
    parts = []
    if "opcode" in fields:
        parts.append(code(fields["opcode"]))
    if form in ("call", "overlapped", "dispatch"):
        parts += [f"{key + ': ' if form == 'call' else ''}{code(fields[key])}"
                  for key in EXPRESSIONS[form] if key in fields and key != "offset"]
    if "only" in fields:
        parts.append(f"files opened with O_DIRECT; others by {fallback}")
    if fields.get("probe"):
        parts.append(f"where the running kernel has it, else {fallback}")
    why = fields.get("unsupported")
    if isinstance(why, str):
        parts.append(f"not supported: {why}")
    elif why:
        parts += [f"not supported on {platform}: {text}" for platform, text in why.items()]
    return "; ".join(parts)


def ways(op: lower.LoweredOp, backends: Any) -> list[tuple[str, str]]:
    return [
        (b.backend.name,
         way(b.backend.rows.get(op.op.name), op, b.backend.form, b.backend.fallback))
        for b in backends
    ]


def values(option: Option) -> str:
    if option.type == "choice":
        words = ", ".join(f"`{word}`" for word in option.words)
        also = "; ".join(f"`{a}` is `{w}`" for a, w in option.aliases.items())
        return words + (f" ({also})" if also else "")
    if option.type == "bool":
        return "`True`, `False`"
    return f"{option.least} to {option.most}{' ' + option.unit if option.unit else ''}"


def option_default(option: Option) -> str:
    return repr(option.default)


def stub_type(option: Option) -> str:
    if option.type == "choice":
        words = ", ".join(f'"{word}"' for word in (*option.words, *option.aliases))
        return f"Literal[{words}]"
    return option.type
