"""First pass: the bytes of a spec file become tables whose every key knows its line.

tomllib keeps no line numbers, so headers and keys are found by a scan of their own. A key that the
scan did not find is refused: a line in a message is never wrong. Knows nothing of operations.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
PATH = rf"{PART}(?:\s*\.\s*{PART})*"
HEADER = re.compile(rf"\s*\[\s*(\[?)\s*({PATH})\s*\]")
KEY = re.compile(rf"\s*({PATH})\s*=")
AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
OPEN, CLOSE = "[{", "]}"


class Where(NamedTuple):
    """A place in a spec file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class SpecError(Exception):
    """All faults of a run, sorted by place."""

    def __init__(self, faults: list[tuple[Where, str]]) -> None:
        self.faults = sorted(set(faults))
        super().__init__("\n".join(f"{where}: {text}" for where, text in self.faults))


class Faults:
    """Collects what is wrong, so that one run reports all of it."""

    def __init__(self) -> None:
        self.found: list[tuple[Where, str]] = []

    def add(self, where: Where, text: str) -> None:
        self.found.append((where, text))

    def finish(self) -> None:
        if self.found:
            raise SpecError(self.found)


class Table:
    """A TOML table: its values, where it begins and where each of its keys stands."""

    def __init__(self, where: Where, name: str) -> None:
        self.where = where
        self.name = name
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}

    def at(self, key: str) -> Where:
        return Where(self.where.file, self.lines.get(key, self.where.line))


def parts(path: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(PART, path))


class Lines:
    """The line of each header and key; a path holds an index after an array of tables."""

    def __init__(self, text: str) -> None:
        self.found: dict[tuple[Any, ...], int] = {}
        self.arrays: dict[tuple[Any, ...], int] = {}
        self.table: tuple[Any, ...] = ()
        self.depth = 0
        self.quote = ""
        for number, line in enumerate(text.splitlines(), 1):
            if not self.depth and not self.quote:
                self.head(line, number)
            self.skip(line)

    def resolve(self, path: tuple[str, ...]) -> tuple[Any, ...]:
        full: tuple[Any, ...] = ()
        for part in path:
            full += (part,)
            if full in self.arrays:
                full += (self.arrays[full],)
        return full

    def head(self, line: str, number: int) -> None:
        header = HEADER.match(line)
        if header:
            path = parts(header[2])
            if header[1]:
                array = self.resolve(path[:-1]) + path[-1:]
                self.arrays[array] = self.arrays.get(array, -1) + 1
                self.found.setdefault(array, number)
            self.table = self.resolve(path)
            for end in range(1, len(self.table) + 1):
                self.found.setdefault(self.table[:end], number)
            return
        key = KEY.match(line)
        if key:
            path = parts(key[1])
            for end in range(1, len(path) + 1):
                self.found.setdefault(self.table + path[:end], number)

    def skip(self, line: str) -> None:
        """Follows strings and brackets, so that a value of several lines hides no key."""
        if not self.depth and not self.quote and HEADER.match(line):
            return
        at = 0
        while at < len(line):
            if self.quote:
                at = self.inside(line, at)
                continue
            char = line[at]
            if char == "#":
                return
            if char in "\"'":
                self.quote = char * 3 if line.startswith(char * 3, at) else char
                at += len(self.quote)
                continue
            self.depth += (char in OPEN) - (char in CLOSE)
            at += 1
        if len(self.quote) == 1:
            self.quote = ""

    def inside(self, line: str, at: int) -> int:
        if line[at] == "\\" and self.quote[0] == '"':
            return at + 2
        if line.startswith(self.quote, at):
            at += len(self.quote)
            self.quote = ""
            return at
        return at + 1


def build(file: str, data: dict[str, Any], lines: Lines, faults: Faults) -> Table:
    def table(values: dict[str, Any], path: tuple[Any, ...], line: int, inline: bool) -> Table:
        made = Table(Where(file, line), str(path[-1]) if path else "")
        for key, value in values.items():
            at = lines.found.get(path + (key,))
            if at is None and not inline:
                faults.add(
                    made.where, f"the line of key '{key}' was not found; begin a line with it"
                )
                continue
            at = at or line
            made.lines[key] = at
            made.values[key] = convert(value, path + (key,), at, inline)
        return made

    def convert(value: Any, path: tuple[Any, ...], line: int, inline: bool) -> Any:
        if isinstance(value, dict):
            headed = not inline and any(len(p) > len(path) and p[: len(path)] == path
                                        for p in lines.found)
            return table(value, path, line, not headed)
        if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            return [
                convert(v, path + (i,), lines.found.get(path + (i,), line), inline)
                for i, v in enumerate(value)
            ]
        return value

    return table(data, (), 1, False)


def load(root: Path, name: str, faults: Faults) -> Table | None:
    """Reads the spec file `name` (relative to `root`, the way messages name it)."""
    try:
        text = (root / name).read_bytes().decode("utf-8")
    except OSError as error:
        faults.add(Where(name, 1), f"cannot be read: {error.strerror}")
        return None
    except UnicodeDecodeError:
        faults.add(Where(name, 1), "is not UTF-8 text")
        return None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = AT_LINE.search(message)
        line = int(at[1]) if at and at[1] else text.count("\n") + 1
        faults.add(Where(name, line), f"is no TOML: {AT_LINE.sub('', message)}")
        return None
    return build(name, data, Lines(text), faults)
