"""Second pass: one spec file becomes one object. Closed words, required keys, types of values.

Never looks at a second file; what relates two objects is for check.py.
"""

from __future__ import annotations

import re
from typing import Any

from . import words as w
from .model import Backend, Example, Op, Option, Param, Row, Rules
from .source import Faults, Table, Where

NAME = re.compile(r"[a-z][a-z0-9_]*")
UPPER = re.compile(r"[A-Z][A-Z0-9_]*")
HEADER = re.compile(r"[A-Za-z0-9_/+.-]+\.h")
HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*")
REQUIRED = object()
KIND_NAMES = {str: "a string", int: "an integer", bool: "true or false", list: "a list",
              Table: "a table"}


def listed(names: Any) -> str:
    return ", ".join(names) or "nothing"


class Reader:
    """Reads a table's keys once each and says what is missing, wrong or unknown."""

    def __init__(self, table: Table, title: str, faults: Faults) -> None:
        self.table = table
        self.title = title
        self.faults = faults
        self.known: list[str] = []

    def fault(self, key: str, text: str) -> None:
        self.faults.add(self.table.at(key), text)

    def value(self, key: str, kind: type, default: Any) -> Any:
        self.known.append(key)
        if key not in self.table.values:
            if default is REQUIRED:
                self.faults.add(self.table.where, f"{self.title} has no '{key}'")
                return None
            return default
        value = self.table.values[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fault(key, f"'{key}' must be {KIND_NAMES[kind]}")
            return None if default is REQUIRED else default
        return value

    def text(self, key: str, default: Any = REQUIRED) -> str:
        value = self.value(key, str, default)
        if value == "" and default is REQUIRED:
            self.fault(key, f"'{key}' is empty")
        return value or ""

    def sentence(self, key: str, default: Any = REQUIRED) -> str:
        value = self.text(key, default)
        if not value.isprintable():
            self.fault(key, f"'{key}' must be one line of text")
        return value

    def name(self, key: str, pattern: re.Pattern[str] = NAME) -> str:
        value = self.text(key)
        if value and not pattern.fullmatch(value):
            self.fault(key, f"{value!r} is no name: lower-case letters, digits and _")
            return ""
        return value

    def integer(self, key: str, default: Any = REQUIRED) -> int:
        value = self.value(key, int, default)
        return 0 if value is None else value

    def limit(self, key: str) -> int:
        value = self.value(key, int, REQUIRED)
        if value is not None and not 1 <= value <= 0x7FFFFFFF:
            self.fault(key, f"'{key}' must be from 1 to 0x7fffffff")
        return value or 1

    def flag(self, key: str, default: bool) -> bool:
        return bool(self.value(key, bool, default))

    def word(self, key: str, allowed: tuple[str, ...], default: Any = REQUIRED) -> str:
        value = self.text(key, default)
        if value and value not in allowed:
            self.fault(key, f"{key} = {value!r} is not allowed; it is one of: {listed(allowed)}")
            return allowed[0] if default is REQUIRED else default
        return value

    def strings(self, key: str, default: Any = REQUIRED) -> tuple[str, ...]:
        value = self.value(key, list, default)
        if value is None:
            return ()
        if not all(isinstance(item, str) for item in value):
            self.fault(key, f"'{key}' must be a list of strings")
            return ()
        return tuple(value)

    def sub(self, key: str, default: Any = None) -> Table | None:
        table: Table | None = self.value(key, Table, default)
        return table

    def subs(self, key: str) -> list[Table]:
        self.known.append(key)
        value = self.table.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, Table) for item in value):
            self.fault(key, f"'{key}' must be tables: write [[{key}]]")
            return []
        return value

    def octets(self, key: str) -> bytes | None:
        """A key's bytes, given as text or, as KEY_hex, in hexadecimal digits."""
        text = self.value(key, str, None)
        digits = self.value(f"{key}_hex", str, None)
        if digits is not None:
            if text is not None:
                self.fault(f"{key}_hex", f"'{key}' and '{key}_hex' exclude each other")
            if not HEX.fullmatch(digits):
                self.fault(f"{key}_hex", f"'{key}_hex' must be pairs of hexadecimal digits")
                return b""
            return bytes.fromhex(digits)
        return None if text is None else text.encode()

    def finish(self) -> None:
        for key in self.table.values:
            if key not in self.known:
                self.fault(key, f"'{key}' is no key of {self.title}; it has: {listed(self.known)}")

    def places(self) -> dict[str, Where]:
        return {key: self.table.at(key) for key in self.table.values}


def entries(table: Table | None) -> list[tuple[str, Any, Where]]:
    return [] if table is None else [(k, v, table.at(k)) for k, v in table.values.items()]


def stem(file: str) -> str:
    return file.rsplit("/", 1)[-1].removesuffix(".toml")


# -- operations ----------------------------------------------------------------------------------


def parse_param(table: Table, faults: Faults) -> Param:
    reader = Reader(table, "[[param]]", faults)
    name = reader.name("name")
    kind = reader.word("type", w.TYPES)
    doc = reader.sentence("doc")
    allowed = reader.strings("words", ())
    reader.known.append("default")
    default = table.values.get("default")
    check_words(reader, allowed)
    if (kind == "enum") != bool(allowed):
        reader.fault("words", "'words' belongs to type 'enum', which must have it")
    elif default is not None:
        check_default(reader, kind, allowed, default)
    reader.finish()
    return Param(name, kind, doc, allowed, default, table.where)


def check_words(reader: Reader, words: Any) -> None:
    for word in words:
        if not NAME.fullmatch(word):
            reader.fault("words", f"{word!r} is no name: lower-case letters, digits and _")


def check_default(reader: Reader, kind: str, allowed: tuple[str, ...], default: Any) -> None:
    if kind not in w.DEFAULTED:
        reader.fault("default", f"type '{kind}' has no default; {listed(w.DEFAULTED)} may have one")
    elif kind == "flag" and not isinstance(default, bool):
        reader.fault("default", "the default of a flag is true or false")
    elif kind == "enum" and default not in allowed:
        reader.fault("default", f"{default!r} is no word of it; it has: {listed(allowed)}")
    elif kind in ("size", "offset", "mode") and type(default) is not int:
        reader.fault("default", f"the default of type '{kind}' is an integer")


def parse_rules(table: Table | None, op: Table, faults: Faults) -> Rules:
    reader = Reader(table or Table(op.where, "rules"), "[rules]", faults)
    retry = reader.strings("retry", ("EINTR",))
    for name in retry:
        if name not in w.ERRNOS:
            reader.fault("retry", f"{name!r} is no errno name that every system has")
    rules = Rules(
        short=reader.word("short", w.SHORTS, "none"),
        retry=tuple(sorted(set(retry))),
        cancel=reader.word("cancel", w.CANCELS, "detach"),
        order=reader.word("order", w.ORDERS, "any"),
        batch=reader.flag("batch", True),
        probe=reader.word("probe", w.PROBES, "none"),
        waits=reader.word("waits", w.WAITS, "none"),
        each=reader.text("each", ""),
        places=reader.places(),
        where=reader.table.where,
    )
    reader.finish()
    return rules


def parse_errors(table: Table | None, faults: Faults) -> tuple[dict[str, str], dict[str, Where]]:
    kinds, places = {}, {}
    for name, kind, where in entries(table):
        if name not in w.ERRNOS:
            faults.add(where, f"{name!r} is no errno name that every system has")
        elif kind not in w.ERROR_KINDS:
            faults.add(where, f"{name} = {kind!r} is not allowed; it is one of: "
                              f"{listed(w.ERROR_KINDS)}")
        else:
            kinds[name], places[name] = kind, where
    return kinds, places


def parse_example(table: Table, on: str, faults: Faults) -> Example:
    reader = Reader(table, "[[example]]", faults)
    kind = reader.word("kind", w.KINDS, "none" if on == "none" else "file")
    content = reader.octets("file")
    other, after, after_other = (reader.octets(k) for k in ("other", "after", "after_other"))
    filled = reader.octets("filled")
    call = reader.sub("call", REQUIRED)
    reader.known += ["result", "result_hex"]
    result = table.values.get("result")
    if "result_hex" in table.values:
        result = reader.octets("result")
    error = reader.text("error", "")
    if (result is None) == (not error):
        faults.add(table.where, "[[example]] must have either 'result' or 'error'")
    if error and error not in w.ERRNOS:
        reader.fault("error", f"{error!r} is no errno name that every system has")
    if content and kind not in ("file", "pipe"):
        reader.fault("file", f"an example of kind '{kind}' has no content")
    becomes = reader.word("becomes", w.BECOMES, "")
    reader.finish()
    places = reader.places()
    places.update({f"call.{k}": at for k, _, at in entries(call)})
    return Example(kind, content or b"", other, dict(call.values) if call else {}, result, error,
                   after, after_other, filled, becomes or "", places, table.where)


def parse_op(table: Table, faults: Faults) -> Op | None:
    top = Reader(table, "an operation's file", faults)
    head = top.sub("op", REQUIRED)
    params = [parse_param(t, faults) for t in top.subs("param")]
    rules = top.sub("rules")
    errors = top.sub("errors")
    examples = top.subs("example")
    top.finish()
    if head is None:
        return None
    reader = Reader(head, "[op]", faults)
    name = reader.name("name")
    if name and name != stem(table.where.file):
        reader.fault("name", f"operation '{name}' must stand in {name}.toml")
    on = reader.word("on", w.ON, "file")
    kinds, places = parse_errors(errors, faults)
    op = Op(
        name=name,
        summary=reader.sentence("summary"),
        on=on,
        result=reader.word("result", w.RESULTS),
        surface=reader.word("surface", w.SURFACES, "method"),
        params=tuple(params),
        rules=parse_rules(rules, head, faults),
        errors=kinds,
        error_places=places,
        examples=tuple(parse_example(t, on, faults) for t in examples),
        where=head.where,
    )
    reader.finish()
    return op


# -- backends ------------------------------------------------------------------------------------


def parse_row(table: Table, form: str, faults: Faults) -> Row:
    title = f"[lower.{table.name}]"
    reader = Reader(table, title, faults)
    allowed = (*w.SETTINGS[form], *w.EVERY_ROW, *w.EXPRESSIONS[form])
    fields: dict[str, Any] = {}
    for key in allowed:
        if key in ("probe", "eof"):
            value: Any = reader.flag(key, False)
        elif key == "unsupported" and isinstance(table.values.get(key), Table):
            value = {p: str(why) for p, why, _ in entries(reader.sub(key))}
            for platform in value:
                if platform not in w.PLATFORMS:
                    reader.fault(key, f"'{platform}' is no platform; there are: "
                                      f"{listed(w.PLATFORMS)}")
        else:
            value = reader.sentence(key, "")
        if value:
            fields[key] = value
    if "via" in fields and len(fields) > 1:
        reader.fault("via", f"{title} has 'via', so it may have nothing else")
    if fields.get("only", "direct") != "direct":
        reader.fault("only", f"only = {fields['only']!r} is not allowed; it is one of: direct")
    if fields.get("returns", "errno") != "errno":
        reader.fault("returns", f"returns = {fields['returns']!r} is not allowed; "
                                "it is one of: errno")
    reader.finish()
    return Row(table.name, fields, reader.places(), table.where)


def parse_numbers(table: Table | None, faults: Faults) -> dict[str, int]:
    numbers = {}
    for name, value, where in entries(table):
        if not UPPER.fullmatch(name):
            faults.add(where, f"{name!r} is no opcode: upper-case letters, digits and _")
        elif type(value) is not int or not 0 <= value <= 255:
            faults.add(where, f"opcode {name} must be an integer from 0 to 255")
        else:
            numbers[name] = value
    return numbers


def parse_hooks(table: Table | None, faults: Faults) -> dict[str, str]:
    if table is None:
        return {}
    reader = Reader(table, "[hooks]", faults)
    hooks = {key: reader.name(key) for key in w.HOOKS}
    if "asked" in table.values:
        hooks["asked"] = reader.name("asked")
    reader.known.append("asked")
    reader.finish()
    return hooks


def parse_headers(table: Table | None, faults: Faults) -> dict[str, tuple[str, ...]]:
    if table is None:
        return {}
    reader = Reader(table, "[headers]", faults)
    headers = {key: reader.strings(key, ()) for key in w.HEADER_PLATFORMS}
    for key, names in headers.items():
        for name in names:
            if not HEADER.fullmatch(name):
                reader.fault(key, f"{name!r} is no header: write it like \"sys/stat.h\"")
    reader.finish()
    return {key: names for key, names in headers.items() if names}


def parse_backend(table: Table, faults: Faults) -> Backend | None:
    top = Reader(table, "a backend's file", faults)
    head = top.sub("backend", REQUIRED)
    limits = top.sub("limits", REQUIRED)
    opcodes = top.sub("opcodes")
    hooks = top.sub("hooks", REQUIRED)
    headers = top.sub("headers")
    lower = top.sub("lower")
    top.finish()
    if head is None or limits is None:
        return None
    reader = Reader(head, "[backend]", faults)
    name = reader.name("name")
    if name and name != stem(table.where.file):
        reader.fault("name", f"backend '{name}' must stand in {name}.toml")
    form = reader.word("form", tuple(w.EXPRESSIONS))
    sizes = Reader(limits, "[limits]", faults)
    rows = {}
    for key, value, where in entries(lower):
        if isinstance(value, Table):
            rows[key] = parse_row(value, form or "call", faults)
        else:
            faults.add(where, f"'{key}' is no table: write [lower.{key}]")
    backend = Backend(
        name=name,
        form=form,
        when=reader.sentence("when"),
        rank=reader.integer("rank"),
        fallback=reader.text("fallback", ""),
        transfer=sizes.limit("transfer"),
        batch=sizes.limit("batch"),
        opcodes=parse_numbers(opcodes, faults),
        hooks=parse_hooks(hooks, faults),
        headers=parse_headers(headers, faults),
        rows=rows,
        places=reader.places(),
        where=head.where,
    )
    reader.finish()
    sizes.finish()
    return backend


# -- options -------------------------------------------------------------------------------------


def parse_option(table: Table, faults: Faults) -> Option:
    reader = Reader(table, "[[option]]", faults)
    kind = reader.word("type", w.OPTION_TYPES)
    allowed = reader.strings("words", REQUIRED) if kind == "choice" else ()
    aliases = {k: str(v) for k, v, _ in entries(reader.sub("aliases"))} if kind == "choice" else {}
    least = reader.integer("least") if kind == "int" else 0
    most = reader.integer("most") if kind == "int" else 0
    kinds = {"choice": str, "int": int, "bool": bool}
    default = reader.value("default", kinds.get(kind, bool), REQUIRED)
    if kind == "choice" and default is not None and default not in allowed:
        reader.fault("default", f"{default!r} is no word of it; it has: {listed(allowed)}")
    if kind == "int" and default is not None and not least <= default <= most:
        reader.fault("default", f"{default} is not from {least} to {most}")
    check_words(reader, (*allowed, *aliases))
    for alias, word in aliases.items():
        if word not in allowed:
            reader.fault("aliases", f"{alias} = {word!r} is no word of it; it has: "
                                    f"{listed(allowed)}")
    option = Option(reader.name("name"), kind, allowed, aliases, reader.text("unit", ""), least,
                    most, default, reader.strings("backends", ()),
                    reader.sentence("deprecated", ""), reader.sentence("doc"), reader.places(),
                    table.where)
    reader.finish()
    return option


def parse_config(table: Table, faults: Faults) -> tuple[Option, ...]:
    top = Reader(table, "the options' file", faults)
    options = tuple(parse_option(t, faults) for t in top.subs("option"))
    top.finish()
    return options
