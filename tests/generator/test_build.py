"""What the build options leave out: a build without liburing says so once, and works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import support

CC = os.environ.get("CC", "cc")
# Static libraries are looked for in the folders that the compiler names.
WITHOUT_LIBRARIES = f"""#!/bin/sh
case " $* " in
*" --print-search-dirs "*) echo "libraries: =/nowhere" ;;
*) exec {CC} "$@" ;;
esac
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="liburing is Linux's")
def test_a_build_without_liburing_says_so_once_and_works(tmp_path: Path) -> None:
    support.need_tools("meson", "ninja", CC.split()[0])
    compiler = tmp_path / "compiler"
    compiler.write_text(WITHOUT_LIBRARIES)
    compiler.chmod(0o755)
    build = tmp_path / "build"
    made = support.run_tool(support.ROOT, "meson", "setup", str(build), "-Dpython=false",
                            "-Dtests=true", "-Doptimization=0", "-Dlinux_aio=disabled",
                            CC=str(compiler))
    assert made.returncode == 0, made.stdout + made.stderr
    said = [line for line in made.stdout.splitlines() if "built without the io_uring" in line]
    assert len(said) == 1 and "liburing-dev" in said[0]
    built = support.run_tool(tmp_path, "ninja", "-C", str(build), "tests/test_examples")
    assert built.returncode == 0, built.stdout + built.stderr
    program = str(build / "tests/test_examples")
    for backend in ("io_uring", "linux_aio"):
        done = subprocess.run([program, backend], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (77, f"{backend}: not part of this build\n")
    done = subprocess.run([program, "auto"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "threads:" in done.stdout and ", 0 failed" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the backends of Linux")
def test_a_backend_that_is_left_out_on_purpose_is_no_warning(tmp_path: Path) -> None:
    support.need_tools("meson", "ninja", CC.split()[0])
    made = support.run_tool(support.ROOT, "meson", "setup", str(tmp_path / "build"),
                            "-Dpython=false", "-Dio_uring=disabled", "-Dlinux_aio=disabled")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "WARNING" not in made.stdout
    assert any(line.split() == ["backends", ":", "threads"] for line in made.stdout.splitlines())
