"""The generated C of every backend under every compiler that is found here: for each system that
it is made for, with all warnings as errors.

A compiler that is missing is a skip that names it. `ziglang` (a Python package, or `zig` on PATH)
brings the headers of Windows, macOS, and Linux with musl and on aarch64.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
import support

from generator import __main__ as cli

STRICT = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
RUNTIME = support.ROOT / "runtime"
GENERATED = support.ROOT / "generated"
# Files of all backends; aya_python_ops.c needs the headers of CPython.
COMMON = ("aya_backends", "aya_config", "aya_examples", "aya_inline", "aya_ops")
# Headers of libraries are the same on every processor; the system's own come first.
SYSTEM_LAST = ["-idirafter", "/usr/include"]


@dataclass(frozen=True)
class Target:
    name: str
    command: tuple[str, ...]  # words; the first is looked up on PATH
    system: str
    options: tuple[str, ...] = ()


def zig(target: str, system: str, *options: str) -> Target:
    return Target(f"zig {target}", ("zig", "cc", "-target", target), system, options)


TARGETS = [
    Target("cc", (*os.environ.get("CC", "cc").split(),), "linux"),
    Target("gcc", ("gcc",), "linux"),
    Target("clang", ("clang",), "linux"),
    Target("musl-gcc", ("musl-gcc",), "linux"),
    Target("aarch64 gcc", ("aarch64-linux-gnu-gcc",), "linux"),
    Target("mingw", ("x86_64-w64-mingw32-gcc",), "win32"),
    Target("swift's clang", ("swift's clang", "-fblocks"), "dispatch"),
    zig("x86_64-linux-musl", "linux"),
    zig("aarch64-linux-musl", "linux"),
    zig("aarch64-linux-gnu", "linux"),
    zig("x86_64-windows-gnu", "win32"),
    zig("aarch64-windows-gnu", "win32"),
    zig("x86_64-macos", "darwin", "-fblocks"),
    zig("aarch64-macos", "darwin", "-fblocks"),
]
# The backends of a system beside the pool.
BACKENDS = {"linux": ("io_uring", "linux_aio"), "win32": ("iocp",), "darwin": ("dispatch",),
            "dispatch": ("dispatch",)}


# -- finding compilers ---------------------------------------------------------------------------


def swift_root() -> Path | None:
    swift = shutil.which("swift")
    named = os.environ.get("AYA_SWIFT_ROOT")
    root = Path(named) if named else Path(swift).resolve().parents[2] if swift else None
    return root if root and (root / "usr/bin/clang").exists() else None


def find(target: Target) -> list[str]:
    """The command of the compiler; skips the test where there is none."""
    first, *rest = target.command
    if first == "zig" and importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", *rest]
    if first == "swift's clang":
        root = swift_root()
        if root is None:
            pytest.skip("no toolchain with libdispatch here; AYA_SWIFT_ROOT may name one")
        return [str(root / "usr/bin/clang"), *rest, "-I", str(root / "usr/lib/swift")]
    if shutil.which(first) is None:
        pytest.skip(f"there is no {first} here")
    return [first, *rest]


def compile_text(command: list[str], folder: Path, text: str) -> bool:
    (folder / "try.c").write_text(text)
    done = subprocess.run([*command, "-c", "-o", str(folder / "try.o"), str(folder / "try.c")],
                          capture_output=True)
    return done.returncode == 0


def defines(target: Target, backends: list[str]) -> list[str]:
    linux = ["-D_GNU_SOURCE"] if target.system in ("linux", "dispatch") else []
    return linux + [f"-DAYA_WITH_{name.upper()}" for name in backends]


# -- the tests -----------------------------------------------------------------------------------


def test_every_backend_has_a_system() -> None:
    told = {name for names in BACKENDS.values() for name in names} | {"threads"}
    assert told == {backend.name for backend in cli.read(support.ROOT).backends}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name.replace(" ", "-"))
def test_generated_c_compiles(target: Target, tmp_path: Path) -> None:
    command = [*find(target), *target.options]
    if target.system == "linux":
        command += SYSTEM_LAST
        if not compile_text([*command, "-D_GNU_SOURCE"], tmp_path,
                            "#include <sys/stat.h>\nstruct statx status;\n"):
            pytest.skip(f"the C library of {target.name} is older than statx()")
    backends = list(BACKENDS[target.system])
    if target.system == "linux" and not compile_text(command, tmp_path,
                                                       "#include <liburing.h>\n"):
        backends.remove("io_uring")
    for stem in (*COMMON, "aya_threads", *(f"aya_{name}" for name in backends)):
        done = subprocess.run(
            [*command, *STRICT, *defines(target, backends), "-I", str(RUNTIME), "-I",
             str(GENERATED), "-c", "-o", str(tmp_path / f"{stem}.o"), str(GENERATED / f"{stem}.c")],
            capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"{stem}.o").stat().st_size > 0
    if not backends[1:] and target.system == "linux":
        pytest.skip(f"all but io_uring compiles; {target.name} has no liburing.h")


@pytest.mark.parametrize("compiler", ["cc", "gcc", "clang"])
def test_generated_python_c_compiles(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} here")
    python = sysconfig.get_path("include")
    if not (Path(python) / "Python.h").is_file():
        pytest.skip("this Python has no headers")
    # CPython's own headers are not clean under -Wconversion.
    done = subprocess.run(
        [compiler, *STRICT, "-D_GNU_SOURCE", "-isystem", python, "-I", str(RUNTIME), "-I",
         str(GENERATED), "-I", str(support.ROOT / "python/src"), "-c", "-o",
         str(tmp_path / "python_ops.o"), str(GENERATED / "aya_python_ops.c")],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", ["threads", *sorted({n for b in BACKENDS.values() for n in b})])
def test_one_backend_can_be_written_elsewhere(backend: str, tmp_path: Path) -> None:
    ended = support.run("--backend", backend, "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert [p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()] == [
        Path(f"generated/aya_{backend}.c")]
    assert (tmp_path / f"generated/aya_{backend}.c").read_bytes() == (
        GENERATED / f"aya_{backend}.c").read_bytes()
