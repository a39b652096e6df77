"""C as text: the names in an expression, literals, lists wrapped at 100 columns. Knows no spec."""

from __future__ import annotations

import re
from typing import Iterable

from .words import C_KEYWORDS

WIDTH = 100
TOKEN = re.compile(
    r"""\s+|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|0[xX][0-9a-fA-F]+\w*|\d[\w.]*"""
    r"""|[A-Za-z_]\w*|->|<<|>>|[<>=!&|]=?|."""
)
TYPES = ("char", "int", "long", "short", "unsigned", "void", "bool")
WORD = re.compile(r"[A-Za-z_]\w*$")


def tokens(expression: str) -> list[str]:
    return [token for token in TOKEN.findall(expression) if not token.isspace()]


def is_type(token: str) -> bool:
    return token.endswith("_t") or token in TYPES


def free_names(expression: str) -> list[str]:
    """The lower-case names that an expression takes from around it, each once.

    Called functions, members, types (`..._t`, after `struct`), constants and what begins with aya_
    are no such names, nor is a variable that the expression declares itself.
    """
    found: list[str] = []
    declared: set[str] = set()
    parts = ["", "", *tokens(expression), ""]
    for at in range(2, len(parts) - 1):
        token, before = parts[at], parts[at - 1]
        if not WORD.match(token) or token in C_KEYWORDS or not token.islower():
            continue
        if before in (".", "->", "struct", "enum") or parts[at + 1] == "(":
            continue
        if is_type(token) or token.startswith("aya_"):
            continue
        if is_type(before) or (before == "*" and is_type(parts[at - 2])):
            declared.add(token)
        elif token not in found:
            found.append(token)
    return [name for name in found if name not in declared]


def is_word(expression: str) -> bool:
    return WORD.match(expression) is not None


def is_constant(expression: str) -> bool:
    return is_word(expression) and not expression[0].islower()


def quoted(text: str | bytes) -> str:
    """A C string literal; what is not printable ASCII is octal, which no next character extends."""
    data = text.encode() if isinstance(text, str) else text
    out = []
    for byte in data:
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char == "?" or not 32 <= byte < 127:
            out.append(f"\\{byte:03o}" if char != "?" else "?")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def wrapped_text(text: str, indent: int, width: int = WIDTH) -> str:
    """A string literal of several lines: cut after line ends, and after a space where too long."""
    lines: list[str] = []
    for part in text.splitlines(keepends=True) or [""]:
        line = ""
        for word in re.findall(r"\S*\s*", part):
            if line and len(quoted(line + word.rstrip(" "))) > width - indent:
                lines.append(line)
                line = ""
            line += word
        lines.append(line)
    return ("\n" + " " * indent).join(quoted(line) for line in lines)


def call(head: str, items: Iterable[str], tail: str = ");", indent: int = 0) -> str:
    """`head` + items + `tail` in lines of at most 100 columns; the first is indented already."""
    aligned = indent + head.find("(") + 1
    pad = " " * (aligned if indent < aligned < WIDTH // 2 else indent + 4)
    lines, line = [], " " * indent + head
    rest = list(items)
    for number, item in enumerate(rest):
        piece = item + (", " if number + 1 < len(rest) else tail)
        if len(line + piece.rstrip()) > WIDTH and line.strip() != "":
            lines.append(line.rstrip())
            line = pad
        line += piece
    if not rest:
        line += tail
    lines.append(line.rstrip())
    return "\n".join(lines).lstrip()


def paragraph(text: str, width: int, first: str = "", rest: str = "") -> str:
    lines, line = [], first
    for word in text.split():
        if line.strip() and len(line) + len(word) + 1 > width and line not in (first, rest):
            lines.append(line.rstrip())
            line = rest
        line += word + " "
    lines.append(line.rstrip())
    return "\n".join(lines)
