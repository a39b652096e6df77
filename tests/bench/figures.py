"""Two figures of a run of bench.py, as one SVG file: how many times the best peer's and the
blocking calls' speed each row has, and what an operation costs as more are in flight or more files
are open.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, STEP, HEAD = 860, 190, 16, 40
PEER, SYNC = "#1f6feb", "#d29922"


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 11) -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
            f"{escape(words)}</text>")


def line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
            f' stroke="{color}"/>')


def dot(x: float, y: float, color: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>'


def ratios(lines: list[dict[str, Any]], top: float) -> list[str]:
    """A dot for each ratio, on an axis from a tenth to a hundred times."""

    def place(value: float) -> float:
        power = min(max(math.log10(value), -1), 2)
        return LEFT + (power + 1) / 3 * (WIDTH - LEFT - 20)

    bottom = top + HEAD + STEP * len(lines)
    parts = [text(LEFT, top + 14, "times the best peer (blue) and the blocking calls (yellow)")]
    for value in (0.1, 0.3, 1, 3, 10, 30, 100):
        parts.append(line(place(value), top + HEAD - 10, place(value), bottom,
                          "#888" if value == 1 else "#ddd"))
        parts.append(text(place(value), top + HEAD - 14, f"{value:g}", "middle", 10))
    for index, one in enumerate(lines):
        y = top + HEAD + STEP * index
        parts.append(text(LEFT - 10, y + 4, one["row"], "end"))
        for key, color in (("to_sync", SYNC), ("to_peer", PEER)):
            if one[key]:
                parts.append(dot(place(one[key]), y, color))
    return parts


def costs(rows: dict[str, dict[str, list[dict[str, Any]]]], prefix: str) -> list[tuple[int, float]]:
    """(how many, microseconds an operation) of the scaling rows."""
    found = []
    for name, outcomes in rows.items():
        kind, _, count = name.partition("_")
        past = [one for one in outcomes.get("ayafileio", []) if one.get("count")]
        if kind == prefix and count.isdigit() and past:
            cost = statistics.median(one["seconds"] / one["count"] * 1e6 for one in past)
            found.append((int(count), cost))
    return sorted(found)


def scaling(curves: Iterable[tuple[str, str, list[tuple[int, float]]]], top: float) -> list[str]:
    drawn = [(words, color, points) for words, color, points in curves if points]
    highest = max((cost for _, _, points in drawn for _, cost in points), default=0)
    parts = [text(LEFT, top + 14, "microseconds an operation")]

    def place(count: int, cost: float) -> tuple[float, float]:
        return (LEFT + math.log10(count) / 6 * (WIDTH - LEFT - 20),
                top + HEAD + 150 * (1 - cost / highest))

    for index, (words, color, points) in enumerate(drawn):
        parts.append(text(LEFT + 200 + 180 * index, top + 14, words))
        parts.append(dot(LEFT + 192 + 180 * index, top + 10, color))
        places = [place(*point) for point in points]
        for start, end in zip(places, places[1:]):
            parts.append(line(*start, *end, color))
        for (x, y), (count, cost) in zip(places, points):
            parts += [dot(x, y, color), text(x, y - 8, f"{cost:.2f}", "middle", 10),
                      text(x, top + HEAD + 168, f"{count:,}", "middle", 10)]
    return parts


def draw(lines: list[dict[str, Any]], rows: dict[str, Any]) -> str:
    compared = [one for one in lines if one["to_peer"] or one["to_sync"]]
    middle = HEAD + STEP * len(compared) + 30
    curves = [("reads in flight", PEER, costs(rows, "inflight")),
              ("open files", SYNC, costs(rows, "files"))]
    parts = ratios(compared, 0) + scaling(curves, middle)
    height = middle + HEAD + 190
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
            f' font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")
