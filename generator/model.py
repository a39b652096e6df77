"""What the specs say, as frozen data; each object knows where it stands. No logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from .source import Where


@dataclass(frozen=True)
class Param:
    name: str
    type: str
    doc: str
    words: tuple[str, ...]
    default: Any  # None: the parameter must be given
    where: Where


@dataclass(frozen=True)
class Rules:
    short: str
    retry: tuple[str, ...]
    cancel: str
    order: str
    batch: bool
    probe: str
    waits: str  # for the file to be so, and moves nothing
    each: str  # the operation that a group is many of, or ""
    places: Mapping[str, Where]
    where: Where


@dataclass(frozen=True)
class Example:
    kind: str
    file: bytes
    other: bytes | None
    call: Mapping[str, Any]
    result: Any  # None where `error` is given
    error: str
    after: bytes | None
    after_other: bytes | None
    filled: bytes | None
    becomes: str
    places: Mapping[str, Where]
    where: Where


@dataclass(frozen=True)
class Op:
    name: str
    summary: str
    on: str
    result: str
    surface: str
    params: tuple[Param, ...]
    rules: Rules
    errors: Mapping[str, str]
    error_places: Mapping[str, Where]
    examples: tuple[Example, ...]
    where: Where


@dataclass(frozen=True)
class Row:
    op: str
    fields: Mapping[str, Any]
    places: Mapping[str, Where]
    where: Where


@dataclass(frozen=True)
class Backend:
    name: str
    form: str
    when: str
    rank: int
    fallback: str  # "" for the one that all others fall back to
    transfer: int
    batch: int
    opcodes: Mapping[str, int]
    hooks: Mapping[str, str]
    headers: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, Row]
    places: Mapping[str, Where]
    where: Where


@dataclass(frozen=True)
class Option:
    name: str
    type: str
    words: tuple[str, ...]
    aliases: Mapping[str, str]
    unit: str
    least: int
    most: int
    default: Any
    backends: tuple[str, ...]
    deprecated: str
    doc: str
    places: Mapping[str, Where]
    where: Where


@dataclass(frozen=True)
class Spec:
    ops: tuple[Op, ...]
    backends: tuple[Backend, ...]
    options: tuple[Option, ...]
