"""What the generator's tests share: the base spec, cases that change it, runs of the generator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BASE = HERE / "base"
sys.path.insert(0, str(ROOT))
# Tools of the virtual environment come first.
SEARCH = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"


def copy_base(to: Path) -> Path:
    shutil.copytree(BASE, to, dirs_exist_ok=True)
    return to


def replace_once(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path.name} has {text.count(old)} times: {old}"
    path.write_text(text.replace(old, new))


def apply(case: Path, root: Path) -> list[str]:
    """Changes the copied base as the case says and returns the messages that it expects.

    `@ FILE` chooses a file, `- ` lines are replaced by the `+ ` lines after them (alone, `+ ` lines
    are appended), `! FILE` removes one, `= ` lines are the expected messages.
    """
    expected: list[str] = []
    path = root
    old: list[str] = []
    new: list[str] = []

    def flush() -> None:
        if old:
            replace_once(path, "".join(old), "".join(new))
        elif new:
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() if path.exists() else ""
            path.write_text(before + "".join(new))
        old.clear()
        new.clear()

    for line in case.read_text().splitlines():
        mark, rest = line[:1], line[2:]
        if mark != "+" and new or mark not in "+-":
            flush()
        if mark == "@":
            path = root / rest
        elif mark == "!":
            (root / rest).unlink()
        elif mark == "-":
            old.append(rest + "\n")
        elif mark == "+":
            new.append(rest + "\n")
        elif mark == "=":
            expected.append(rest)
    flush()
    return expected


def run(*arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "generator", *arguments],
        cwd=ROOT, capture_output=True, text=True, env={**environment(), "PYTHONHASHSEED": seed},
    )


def need_tools(*names: str) -> None:
    """Skips the test where one of the programs is missing."""
    for name in names:
        if shutil.which(name, path=SEARCH) is None:
            pytest.skip(f"there is no {name}")


def run_tool(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          env={**environment(), "PATH": SEARCH, **variables})


def environment() -> dict[str, str]:
    return dict(os.environ)
