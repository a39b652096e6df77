"""A bad spec ends in messages that a person can act on, all of them, and never in a traceback."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from random import Random

import pytest
import support

from generator import __main__ as cli
from generator import lower, render, source

CASES = sorted((support.HERE / "faults").glob("*.txt"))
PASSES = ("source", "parse", "check", "__main__")


def messages(root: Path) -> list[str]:
    with pytest.raises(source.SpecError) as raised:
        cli.read(root)
    return str(raised.value).splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_fault_has_its_exact_message(case: Path, tmp_path: Path) -> None:
    root = support.copy_base(tmp_path)
    expected = support.apply(case, root)
    assert expected, "a case without '= ' lines expects nothing"
    assert messages(root) == expected


def test_the_base_has_no_fault() -> None:
    assert cli.read(support.BASE).ops


def test_file_that_is_no_text(tmp_path: Path) -> None:
    root = support.copy_base(tmp_path)
    (root / "spec/ops/get.toml").write_bytes(b"\xff\xfe")
    assert messages(root) == ["spec/ops/get.toml:1: is not UTF-8 text"]


def test_key_whose_line_is_not_found_is_refused(tmp_path: Path) -> None:
    root = support.copy_base(tmp_path)
    path = root / "spec/ops/get.toml"
    path.write_text(path.read_text().replace("retry =", '"ret\\u0072y" ='))
    assert messages(root) == [
        "spec/ops/get.toml:17: the line of key 'retry' was not found; begin a line with it"
    ]


def test_all_faults_of_a_run_come_sorted_by_place(tmp_path: Path) -> None:
    root = support.copy_base(tmp_path)
    for name in ("row-missing", "row-unknown-name", "example-call-lacks"):
        support.apply(support.HERE / f"faults/{name}.txt", root)
    found = messages(root)
    assert len(found) == 3
    places = [(line.split(":")[0], int(line.split(":")[1])) for line in found]
    assert places == sorted(places)


def test_command_prints_faults_and_no_traceback(tmp_path: Path) -> None:
    root = support.copy_base(tmp_path)
    support.apply(support.HERE / "faults/row-missing.txt", root)
    ended = support.run("--root", str(root), "--out", str(tmp_path / "out"))
    assert ended.returncode == 1
    assert ended.stderr.startswith("spec/backends/ring.toml:2: ")
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()


# -- mutations -----------------------------------------------------------------------------------

VALUES = ["3", "-1", "true", '""', '"x"', "[]", '["a"]', "{}", "{ a = 1 }", "[[1]]", "1.5",
          '"none"', '"get"', '"pool"', '"bytes"', '"list"', '"bytes_out"', '"spans"', '"((("']


def mutated(text: str, random: Random) -> str:
    """The text with one line lost, doubled, moved, or given another value."""
    lines = text.splitlines()
    at = random.randrange(len(lines))
    kind = random.randrange(5)
    key = lines[at].split("=")[0]
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, random.choice(lines))
    elif kind == 2:
        lines[at], lines[at - 1] = lines[at - 1], lines[at]
    elif kind == 3:
        lines[at] = f"{key}= {random.choice(VALUES)}"
    else:
        lines[at] = f"{key}={random.choice(lines).split('=')[-1]}"
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(4))
def test_no_mutation_of_a_spec_ends_in_another_exception(tmp_path: Path, seed: int) -> None:
    root = support.copy_base(tmp_path)
    files = sorted(root.rglob("*.toml"))
    random = Random(seed)
    refused = 0
    for _ in range(60):
        path = random.choice(files)
        before = path.read_text()
        path.write_text(mutated(before, random))
        try:
            render.render(lower.lower(cli.read(root)))
        except source.SpecError as error:
            assert all(where.line >= 1 and text for where, text in error.faults)
            refused += 1
        path.write_text(before)
    assert 0 < refused < 60


# -- every message is hit ------------------------------------------------------------------------


def reports(tree: ast.AST) -> list[tuple[int, int]]:
    """First and last line of each call that adds a fault, in the source of a pass."""
    spans = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if node.func.attr == "fault" or (node.func.attr == "add" and name == "faults"):
            spans.append((node.lineno, node.end_lineno or node.lineno))
    return spans


def test_every_report_in_the_passes_is_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hit: set[tuple[str, int]] = set()
    add = source.Faults.add

    def spy(self: source.Faults, where: source.Where, text: str) -> None:
        frame = sys._getframe(1)
        while frame is not None and "generator" in frame.f_code.co_filename:
            hit.add((Path(frame.f_code.co_filename).stem, frame.f_lineno))
            frame = frame.f_back
        add(self, where, text)

    monkeypatch.setattr(source.Faults, "add", spy)
    for case in CASES:
        root = support.copy_base(tmp_path / case.stem)
        support.apply(case, root)
        messages(root)
    test_file_that_is_no_text(tmp_path / "text")
    test_key_whose_line_is_not_found_is_refused(tmp_path / "key")
    missed = []
    for name in PASSES:
        tree = ast.parse((support.ROOT / f"generator/{name}.py").read_text())
        for first, last in reports(tree):
            if not any(f == name and first <= line <= last for f, line in hit):
                missed.append(f"generator/{name}.py:{first}")
    assert missed == []
