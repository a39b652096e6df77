"""The README's diff that adds an operation applies to the specs of today, and is all it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import support


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git, which applies the diff")
def test_the_diff_of_the_readme_adds_an_operation(tmp_path: Path) -> None:
    readme = (support.ROOT / "README.md").read_text("utf-8")
    (diff,) = re.findall(r"```diff\n(.*?)```", readme, re.DOTALL)
    shutil.copytree(support.ROOT / "spec", tmp_path / "spec")
    applied = subprocess.run(
        ["git", "apply", "--unidiff-zero", "-"], cwd=tmp_path, input=diff, text=True,
        capture_output=True,
        env={**support.environment(), "GIT_CEILING_DIRECTORIES": str(tmp_path)},
    )
    assert applied.returncode == 0, applied.stderr
    ended = support.run("--root", str(tmp_path), "--out", str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    wrapper = (tmp_path / "generated" / "aya_python_ops.c").read_text()
    assert "aya_python_unlink(" in wrapper
