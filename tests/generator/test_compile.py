"""The generated numbers are the kernel's, results are settled as the rules say, and an operation
that is new in the specs works on every backend without another line of C or Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import support

from generator import __main__ as cli

CC = os.environ.get("CC", "cc").split()
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
RUNTIME = support.ROOT / "runtime"
NEW = support.HERE / "new"

needs_cc = pytest.mark.skipif(shutil.which(CC[0]) is None, reason=f"no C compiler {CC[0]!r}")


def include(*folders: Path) -> list[str]:
    return [option for folder in folders for option in ("-I", str(folder))]


def compiles(command: list[str], source: str) -> bool:
    done = subprocess.run([*command, "-fsyntax-only", "-x", "c", "-"], input=source, text=True,
                          capture_output=True)
    return done.returncode == 0


def build(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def have_liburing() -> bool:
    return compiles(CC, "#include <liburing.h>\n")


# -- the kernel's numbers ------------------------------------------------------------------------


@needs_cc
@pytest.mark.parametrize("backend, header, prefix", [
    ("io_uring", "linux/io_uring.h", "IORING_OP_"),
    ("linux_aio", "linux/aio_abi.h", "IOCB_CMD_"),
])
def test_opcodes_are_the_kernels(backend: str, header: str, prefix: str) -> None:
    source = f"#include <{header}>\n"
    if not compiles(CC, source):
        pytest.skip(f"no {header} here")
    text = subprocess.run([*CC, "-E", "-x", "c", "-"], input=source, text=True, check=True,
                          capture_output=True).stdout
    known = set(re.findall(rf"\b{prefix}(\w+)", text))
    opcodes = next(b for b in cli.read(support.ROOT).backends if b.name == backend).opcodes
    compared = {name: number for name, number in opcodes.items() if name in known}
    assert compared
    for name, number in compared.items():
        check = f'_Static_assert((int){prefix}{name} == {number}, "");\n'
        assert compiles(CC, source + check), f"{name} is not {number} in <{header}>"


@needs_cc
def test_settle_follows_the_rules(tmp_path: Path) -> None:
    support.run("--root", str(support.BASE), "--out", str(tmp_path))
    generated = tmp_path / "generated"
    program = tmp_path / "settle"
    build([*CC, *STRICT, "-D_GNU_SOURCE", *include(RUNTIME, generated), "-o", str(program),
           str(support.HERE / "settle.c"), str(generated / "aya_ops.c")])
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


# -- a new operation -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's specs with the operations of new/ and their rows, compiled."""
    root = tmp_path_factory.mktemp("grown")
    shutil.copytree(support.ROOT / "spec", root / "spec")
    for path in (NEW / "ops").glob("*.toml"):
        shutil.copy(path, root / "spec/ops")
    for path in (NEW / "rows").glob("*.toml"):
        target = root / "spec/backends" / path.name
        target.write_text(target.read_text() + path.read_text())
    support.replace_once(root / "spec/backends/io_uring.toml", "[opcodes]",
                         "[opcodes]\nRENAMEAT = 35\nUNLINKAT = 36\nMKDIRAT = 37\n#")
    ended = support.run("--root", str(root))
    assert ended.returncode == 0, ended.stderr
    return root


@pytest.fixture(scope="module")
def driver(grown: Path) -> Path:
    generated = grown / "generated"
    stems = ["ops", "threads", "inline", "linux_aio", "backends", "config", "examples"]
    others = ("uring", "iocp", "dispatch", "darwin", "kqueue", "win32")
    runtime = [p for p in RUNTIME.glob("*.c") if not p.stem.startswith(others)]
    defines, libraries = ["-D_GNU_SOURCE", "-DAYA_WITH_LINUX_AIO"], ["-lpthread"]
    if have_liburing():
        stems.append("io_uring")
        runtime.append(RUNTIME / "uring.c")
        defines.append("-DAYA_WITH_IO_URING")
        libraries.insert(0, "-luring")
    program = grown / "examples"
    build([*CC, "-std=gnu11", "-O0", *defines, *include(RUNTIME, generated), "-o", str(program),
           *map(str, runtime), *(str(generated / f"aya_{stem}.c") for stem in stems),
           str(support.ROOT / "tests/runtime/test_examples.c"), *libraries])
    return program


@needs_cc
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the backends of Linux")
@pytest.mark.parametrize("backend", ["threads", "io_uring", "linux_aio"])
def test_new_operations_work_on_each_backend(driver: Path, tmp_path: Path, backend: str) -> None:
    done = subprocess.run([str(driver), backend], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode == 77 or "is no backend" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed, 0 failed", done.stdout)[1]) > 100


def test_new_operations_are_in_docs_and_stub(grown: Path) -> None:
    stub = (grown / "python/ayafileio/_ayafileio.pyi").read_text()
    assert "def rename(path: StrOrBytesPath, new_path: StrOrBytesPath) -> Operation[None]:" in stub
    assert "def copy_range(self, offset: int, target: AsyncFile[Any], target_offset: int" in stub
    page = (grown / "docs/operations.md").read_text()
    assert "## `rename`" in page and "`ayafileio.rename`" in page
