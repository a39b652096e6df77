"""The library, its programs and the extension compile and link for macOS, by ziglang.

Nothing of it is run: that takes a Mac. The extension is compiled with the headers of the Python
that runs this, whose pyconfig.h is its own system's: so it is a proof of the C, and no wheel.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MACH_O = bytes.fromhex("cffaedfe")
CPU = {"aarch64": bytes.fromhex("0c000001"), "x86_64": bytes.fromhex("07000001")}

CROSS = """\
[binaries]
# -O1 for all, Meson's own checks too: for each level zig first compiles its own runtime.
c = [{python!r}, '-m', 'ziglang', 'cc', '-target', '{cpu}-macos.11.0', '-O1']
ar = [{python!r}, '-m', 'ziglang', 'ar']
[built-in options]
b_lundef = false
c_link_args = ['-Wl,-undefined,dynamic_lookup']
[host_machine]
system = 'darwin'
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


@pytest.mark.parametrize("cpu", CPU)
def test_compiles_and_links(cpu: str, tmp_path: Path) -> None:
    cross, build = tmp_path / "cross.ini", tmp_path / "build"
    cross.write_text(CROSS.format(python=sys.executable, cpu=cpu))
    run("meson", "setup", str(build), "--cross-file", str(cross), "-Dtests=true",
        "-Doptimization=plain")
    run("meson", "compile", "-C", str(build))
    linked = [build / "tests/test_examples", build / "tests/example",
              *build.glob("python/_ayafileio*.so")]
    assert len(linked) == 3
    for path in linked:
        content = path.read_bytes()
        assert content[:8] == MACH_O + CPU[cpu], path
        assert b"_dispatch_async" in content, path
