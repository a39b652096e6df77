"""The library and its C tests compile and link for Windows by ziglang (clang), on x86_64 and arm64.

Those for x86_64 run in test_windows.py as mingw-w64 builds them; nothing here is run.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"x86_64": 0x8664, "aarch64": 0xAA64}

CROSS = """\
[binaries]
# -O1 for all, Meson's own checks too: for each level zig first compiles its own runtime.
c = [{python!r}, '-m', 'ziglang', 'cc', '-target', '{cpu}-windows-gnu', '-O1']
ar = [{python!r}, '-m', 'ziglang', 'ar']
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'windows'
cpu_family = '{cpu}'
cpu = '{cpu}'
endian = 'little'
"""

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None,
                                reason="no ziglang here (pip install ziglang)")


def run(*command: str) -> None:
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("cpu", MACHINE)
def test_compiles_and_links(cpu: str, tmp_path: Path) -> None:
    cross, build = tmp_path / "cross.ini", tmp_path / "build"
    cross.write_text(CROSS.format(python=sys.executable, cpu=cpu))
    run("meson", "setup", str(build), "--cross-file", str(cross), "-Dtests=true",
        "-Dpython=false", "-Doptimization=plain")
    run("meson", "compile", "-C", str(build))
    programs = sorted(build.glob("tests/**/*.exe"))
    assert len(programs) == 4
    for path in programs:
        content = path.read_bytes()
        header = int.from_bytes(content[0x3c:0x40], "little")
        assert content[header:header + 4] == b"PE\0\0", path
        assert int.from_bytes(content[header + 4:header + 6], "little") == MACHINE[cpu], path
        assert b"GetQueuedCompletionStatusEx" in content, path
