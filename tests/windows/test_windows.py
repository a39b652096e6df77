"""Windows, run by Wine: the C tests and the package under a real CPython for Windows.

`./dev test --windows` installs what is needed: mingw-w64 and Wine by apt, a Python for Windows by
conftest.py. What is missing is a skip that names it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import FOLDER, extension_sources

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
COMPILER = "x86_64-w64-mingw32-gcc"
WINE = next((found for name in ("wine64", "/usr/lib/wine/wine64", "wine")
             if (found := shutil.which(name))), None)
SERVER = next((found for name in ("wineserver", "/usr/lib/wine/wineserver")
               if (found := shutil.which(name))), None)

CROSS = """\
[binaries]
c = '{compiler}'
ar = 'x86_64-w64-mingw32-ar'
strip = 'x86_64-w64-mingw32-strip'
exe_wrapper = '{wine}'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
"""

pytestmark = [
    pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"no {COMPILER} here "
                       "(apt-get install gcc-mingw-w64-x86-64-win32)"),
    pytest.mark.skipif(WINE is None or SERVER is None,
                       reason="no Wine here (apt-get install wine64)"),
]


def environment() -> dict[str, str]:
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    return {**kept, "PATH": path, "WINEPREFIX": str(FOLDER / "prefix"), "WINEDEBUG": "-all"}


def run(*command: str, folder: Path = FOLDER, **variables: str) -> str:
    """What it printed, by a pipe: Python crashes under Wine where stdout is a file."""
    done = subprocess.run(command, cwd=folder, env={**environment(), **variables}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def start_wine(*command: str) -> None:
    """Without a pipe: Wine's services would hold it open for ever."""
    subprocess.run(command, cwd=FOLDER, env=environment(), stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=200)


@pytest.fixture(scope="module", autouse=True)
def wine():
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "prefix/system.reg").exists():
        start_wine(WINE, "wineboot", "--init")
        start_wine(WINE, "winecfg", "-v", "win10")
    start_wine(SERVER, "-p")
    start_wine(WINE, "wineboot")
    yield
    start_wine(SERVER, "-k")


@pytest.fixture(scope="module")
def build() -> Path:
    """The library and its C tests."""
    folder = FOLDER / "build"
    cross = FOLDER / "cross.ini"
    cross.write_text(CROSS.format(compiler=COMPILER, wine=WINE))
    if not (folder / "build.ninja").exists():
        run("meson", "setup", str(folder), str(ROOT), f"--cross-file={cross}", "-Dtests=true",
            "-Dpython=false", "-Dbuildtype=debugoptimized", "-Db_ndebug=false")
    run("meson", "compile", "-C", str(folder))
    return folder


@pytest.fixture(scope="module")
def site(build: Path, windows_python: Path) -> Path:
    """The package, with an extension for that Python."""
    package = FOLDER / "site/ayafileio"
    package.mkdir(parents=True, exist_ok=True)
    run(COMPILER, "-shared", "-static", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror",
        "-fvisibility=hidden", "-DAYA_WITH_IOCP", "-D__USE_MINGW_ANSI_STDIO=1",
        "-isystem", str(windows_python / "include"), "-I", str(ROOT / "runtime"),
        "-I", str(ROOT / "generated"), "-I", str(ROOT / "python/src"),
        "-o", str(package / "_ayafileio.cp313-win_amd64.pyd"),
        *map(str, extension_sources()),
        str(build / "runtime/libaya.a"), str(windows_python / "libs/python313.lib"),
        "-lpthread", "-lntdll")
    for path in ROOT.glob("python/ayafileio/*.py"):
        shutil.copy(path, package)
    return package.parent


def examples_without_row() -> int:
    """Of operations that Windows does not have, as the specs say."""
    with open(ROOT / "spec/backends/threads.toml", "rb") as file:
        rows = tomllib.load(file)["lower"]
    return sum((ROOT / f"spec/ops/{name}.toml").read_text().count("[[example]]")
               for name, row in rows.items() if "win32" not in row)


@pytest.mark.parametrize("name, backend", [
    ("test_examples", "iocp"), ("test_examples", "threads"),
    ("windows/test_iocp", "iocp"), ("windows/test_iocp", "threads"),
    ("windows/test_iocp_shim", "iocp"),
], ids=lambda value: value.split("/")[-1])
def test_library(build: Path, name: str, backend: str) -> None:
    said = run(WINE, str(build / f"tests/{name}.exe"), backend)
    if name == "test_examples":
        counts = re.findall(r"(\d+) (?:passed|failed|of operations)", said)
        passed, failed, others = map(int, counts)
        assert passed > 80 and failed == 0 and others == 2 * examples_without_row(), said


def test_example_program(build: Path) -> None:
    path = ROOT / "spec/config.toml"
    content = path.read_bytes()
    said = run(WINE, str(build / "tests/example.exe"), f"Z:{path}")
    assert said.strip() == (f"{len(content)} bytes, {content.count(10)} lines, by iocp")


@pytest.mark.parametrize("loop", ["proactor", "selector"])
def test_package(windows_python: Path, site: Path, loop: str, tmp_path: Path) -> None:
    run(WINE, str(windows_python / "python.exe"), "-X", "faulthandler", f"Z:{HERE / 'drive.py'}",
        loop, folder=tmp_path, PYTHONPATH=f"Z:{site}")


@pytest.fixture(scope="module")
def pytest_site(windows_python: Path) -> Path:
    """pytest and anyio for that Python."""
    folder = FOLDER / "pytest"
    if not (folder / "pytest").exists():
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--platform", "win_amd64",
             "--python-version", "3.13", "--only-binary", ":all:", "--target", str(folder),
             "pytest", "anyio", "colorama"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"pytest for Windows does not install: {done.stderr[-300:]}")
    return folder


# Files of tests/python that ask little of POSIX, and what in them does.
SUITE = ("api", "append_plus", "binary", "cancel", "close", "config", "examples", "operation",
         "paths", "positioned", "text", "two_files", "whole_files", "write_behind")
NOT_ON_WINDOWS = {
    "a_backend_that_the_system_refuses": "seccomp",
    "a_borrowed_appending_descriptor": "the C library appends, and its handles do not tell",
    "a_call_that_reads_many_lines_can_be_cancelled": "counts bytes of lines that end in LF",
    "a_call_that_writes_many_lines_leaves_the_loop": "counts bytes of lines that end in LF",
    "a_cancelled_copy_ends_early": "counts in /proc/self/fd",
    "a_cancelled_open_leaves_no_descriptor": "os.mkfifo()",
    "a_cancelled_read_of_a_cold_file": "posix_fadvise() makes it cold",
    "a_child_process_goes_on": "runs echo, which is no program there",
    "a_dropped_file_warns": "counts in /proc/self/fd",
    "a_failed_write_of_the_other_file": "/dev/full",
    "a_finished_await_takes_no_turn": "os.preadv()",
    "a_module_of_its_own_in_each_interpreter": "the proactor loop wants the main interpreter",
    "a_path_is_looked_at": "symbolic links, which Wine 8 has not",
    "a_read_of_a_pipe_that_was_not_delivered": "writes more than a pipe there holds",
    "advise_takes_words_and_numbers": "os.POSIX_FADV_NORMAL",
    "an_opener": "a descriptor of a directory",
    "auto_takes_the_first_that_works": "the backends of Linux",
    "by_a_fifo": "os.mkfifo()",
    "by_a_link": "symbolic links, which Wine 8 has not",
    "cancel_ends_what_was_begun": "os.mkfifo()",
    "copy_onto_itself": "symbolic links, which Wine 8 has not",
    "copy_raises_the_error_of_a_write": "/dev/full",
    "copy_refuses_what_is_no_file": "os.mkfifo()",
    "copy_stat": "permissions of POSIX",
    "descriptors_that_are_not_owned": "os.pread()",
    "errors_name_both_files": "another errno where a file is open for reading alone",
    "first_error_is_raised_and_the_others": "another error for a directory",
    "many_files_at_once": "counts in /proc/self/fd",
    "no_more_descriptors_than": "os.mkfifo()",
    "nothing_is_changed_where_one_option": "iocp is no backend elsewhere",
    "permissions_and_umask": "permissions of POSIX",
    "seek_extent": "os.SEEK_DATA",
    "symbolic_links_and_deleted_files": "symbolic links, which Wine 8 has not",
    "system_errors_equal_the_built_in": "the built-in has no winerror",
    "truncate_and_allocate": "st_blocks",
    "udcff": "names of no characters, which Wine 8 refuses",
    "weak_references": "a close ends in a later turn, which keeps the file that long",
    "while_the_open_is_pending": "os.mkfifo()",
}


def test_suite(windows_python: Path, site: Path, pytest_site: Path, tmp_path: Path) -> None:
    said = run(WINE, str(windows_python / "python.exe"), "-m", "pytest", "-q", "-p",
               "no:cacheprovider", "--tb=short", f"--basetemp=Z:{tmp_path / 'files'}",
               "-k", f"not ({' or '.join(NOT_ON_WINDOWS)})",
               *(f"Z:{ROOT / f'tests/python/test_{name}.py'}" for name in SUITE), folder=tmp_path,
               PYTHONPATH=f"Z:{site};Z:{pytest_site}", PYTHONDONTWRITEBYTECODE="1",
               AYA_TEST_BACKENDS="iocp")
    assert int(re.search(r"(\d+) passed", said)[1]) > 500, said[-2000:]
