"""The library, its C tests and the extension compile and link for Windows by ziglang (clang), on
x86_64 and arm64.

Those for x86_64 run in test_windows.py as mingw-w64 builds them; nothing here is run.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import extension_sources

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


def run(*command: str, folder: Path = ROOT) -> None:
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.fixture(scope="module", params=MACHINE)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
          ) -> tuple[str, Path]:
    """A processor, and the library and its C tests for it."""
    folder = tmp_path_factory.mktemp(request.param)
    cross, build = folder / "cross.ini", folder / "build"
    cross.write_text(CROSS.format(python=sys.executable, cpu=request.param))
    run("meson", "setup", str(build), "--cross-file", str(cross), "-Dtests=true",
        "-Dpython=false", "-Doptimization=plain")
    run("meson", "compile", "-C", str(build))
    return request.param, build


def check(path: Path, cpu: str) -> None:
    content = path.read_bytes()
    header = int.from_bytes(content[0x3c:0x40], "little")
    assert content[header:header + 4] == b"PE\0\0", path
    assert int.from_bytes(content[header + 4:header + 6], "little") == MACHINE[cpu], path
    assert b"GetQueuedCompletionStatusEx" in content, path


def test_library(built: tuple[str, Path]) -> None:
    cpu, build = built
    programs = sorted(build.glob("tests/**/*.exe"))
    assert len(programs) == 4
    for path in programs:
        check(path, cpu)


def exported(library: Path) -> list[str]:
    """The names that CPython's library gives, for the linker of a processor that it is not for."""
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "tests/wheels.py")
    wheels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheels)
    return sorted(wheels.pe_exports(library.read_bytes()))


def test_extension(built: tuple[str, Path], windows_python: Path, tmp_path: Path) -> None:
    cpu, build = built
    zig = (sys.executable, "-m", "ziglang")
    (tmp_path / "python.def").write_text("\n".join(
        ["LIBRARY python313.dll", "EXPORTS", *exported(windows_python / "python313.dll")]))
    run(*zig, "dlltool", "-m", {"aarch64": "arm64", "x86_64": "i386:x86-64"}[cpu], "-d",
        "python.def", "-l", "python.lib", folder=tmp_path)
    # The compiler leaves an import library beside what it links.
    run(*zig, "cc", "-target", f"{cpu}-windows-gnu", "-shared", "-std=c11", "-O1", "-Wall",
        "-Wextra", "-Werror", "-fvisibility=hidden", "-DAYA_WITH_IOCP",
        "-D__USE_MINGW_ANSI_STDIO=1", "-isystem", str(windows_python / "include"),
        *(f"-I{ROOT / name}" for name in ("runtime", "generated", "python/src")),
        *map(str, extension_sources()), str(build / "runtime/libaya.a"), "python.lib", "-lpthread",
        "-lntdll", "-o", "_ayafileio.pyd", folder=tmp_path)
    check(tmp_path / "_ayafileio.pyd", cpu)
