"""docs/new-backend.md: the backend that the page builds is built from the page, in a copy of the
tree, and runs every example."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import support

PAGE = support.ROOT / "docs/new-backend.md"
TREE = ("spec", "generated", "runtime", "python", "tests/runtime", "tests/meson.build",
        "meson.build", "meson.options", "dev")
NO_ROW = re.compile(r"spec/backends/courier\.toml:\d+: backend 'courier' has no row for operation "
                    r"'(\w+)'; add \[lower\.\1\], or there (via = \"threads\")")


def blocks() -> dict[str, str]:
    """The page's code that says into which file it goes."""
    found = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.M)
    return dict(found)


def insert_line(path: Path, line: str, before: str) -> None:
    support.replace_once(path, f"\n{before}", f"\n{line}{before}")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with what the page says, regenerated."""
    root = tmp_path_factory.mktemp("tree")
    for name in TREE:
        path = support.ROOT / name
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, root / name)
    code = blocks()
    spec = root / "spec/backends/courier.toml"
    for name in ("spec/backends/courier.toml", "runtime/courier.c"):
        (root / name).write_text(code[name])
    (line,) = code["runtime/meson.build"].splitlines(True)
    insert_line(root / "runtime/meson.build", line, "foreach name, file : backends\n")
    (words,) = code["spec/config.toml"].splitlines(True)
    config = (root / "spec/config.toml").read_text()
    (root / "spec/config.toml").write_text(re.sub(r"^words .*\n", words, config, count=1,
                                                     flags=re.M))

    refused = support.run("--root", str(root))
    lines = refused.stderr.splitlines()
    asked = [NO_ROW.fullmatch(line) for line in lines]
    assert refused.returncode == 1 and lines and all(asked), refused.stderr
    spec.write_text(spec.read_text() + "".join(f"\n[lower.{m[1]}]\n{m[2]}\n" for m in asked if m))
    ended = support.run("--root", str(root))
    assert (ended.returncode, ended.stderr) == (0, "")
    return root


@pytest.mark.skipif(sys.platform == "win32", reason="the page's backend is made of POSIX threads")
def test_the_backend_of_the_page_runs_every_example(tree: Path, tmp_path: Path) -> None:
    support.need_tools("meson", "ninja", os.environ.get("CC", "cc").split()[0])
    made = support.run_tool(tree, "meson", "setup", "build", "-Dtests=true", "-Dpython=false",
               "-Doptimization=0")
    assert made.returncode == 0, made.stdout + made.stderr
    built = support.run_tool(tree, "ninja", "-C", "build", "tests/test_examples")
    assert built.returncode == 0, built.stdout + built.stderr
    program = str(tree / "build/tests/test_examples")
    done = subprocess.run([program, "courier"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"^courier: inline \d+ backend (\d+)", done.stdout, re.M)[1]) > 20
    assert int(re.search(r"(\d+) passed, 0 failed", done.stdout)[1]) > 80


def test_the_new_backend_can_be_configured(tree: Path) -> None:
    assert "AYA_BACKEND_COURIER" in (tree / "generated/aya_config.h").read_text()
    assert "`courier`" in (tree / "docs/configuration.md").read_text()
