"""tests/wheels.py sees what a wheel must not have: exports, paths, files, size."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import support

sys.path.insert(0, str(support.ROOT / "tests"))

import wheels  # noqa: E402

HIDDEN = "__attribute__((visibility(\"hidden\"))) int hidden(void) { return 1; }\n"
GOOD = HIDDEN + """
#if defined(_WIN32)
__declspec(dllexport)
#endif
int PyInit__ayafileio(void) { return hidden(); }
"""
MORE = GOOD + """
#if defined(_WIN32)
__declspec(dllexport)
#endif
int stray(void) { return 2; }
"""
TAG = "cp313-cp313-linux_x86_64"


def library(folder: Path, source: str, compiler: list[str]) -> bytes:
    (folder / "one.c").write_text(source)
    done = subprocess.run([*compiler, "-shared", "-fPIC", "-o", str(folder / "one.so"),
                           str(folder / "one.c")], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "one.so").read_bytes()


def wheel(folder: Path, **changes: bytes) -> Path:
    """A wheel of the package's files, with other content where `changes` has a name."""
    info = "ayafileio-3.0.0.dist-info"
    content = {f"ayafileio/{name}": b"" for name in wheels.PACKAGE}
    content[f"{info}/WHEEL"] = f"Tag: {TAG}\n".encode()
    content.update(changes)
    path = folder / f"ayafileio-3.0.0-{TAG}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


COMPILERS = {
    "elf": ["cc"],
    "pe": ["x86_64-w64-mingw32-gcc"],
    "macho": [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos"],
}


@pytest.mark.parametrize("form", COMPILERS)
def test_exports_are_found(tmp_path: Path, form: str) -> None:
    compiler = COMPILERS[form]
    if form == "macho":
        pytest.importorskip("ziglang")
    elif shutil.which(compiler[0]) is None:
        pytest.skip(f"there is no {compiler[0]} here")
    assert wheels.exports(library(tmp_path, GOOD, compiler)) == {"PyInit__ayafileio"}
    assert wheels.exports(library(tmp_path, MORE, compiler)) == {"PyInit__ayafileio", "stray"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the libraries are for Linux")
def test_faults_of_a_wheel_are_told(tmp_path: Path) -> None:
    support.need_tools("cc")
    name = "ayafileio/_ayafileio.abi.so"
    good = library(tmp_path, GOOD, ["cc"])
    assert wheels.faults(wheel(tmp_path, **{name: good})) == []
    more = library(tmp_path, MORE, ["cc"])
    assert wheels.faults(wheel(tmp_path, **{name: more})) == [
        f"{name} exports PyInit__ayafileio, stray"]
    assert wheels.faults(wheel(tmp_path)) == ["holds these libraries: "]
    told = {name: good, "ayafileio/util.py": b"PATH = '/home/somebody/x'\n"}
    assert wheels.faults(wheel(tmp_path, **told)) == ["ayafileio/util.py tells of /home/"]
    assert wheels.faults(wheel(tmp_path, **{name: good, "tests/x.py": b""})) == [
        "holds tests/x.py"]
    assert wheels.faults(wheel(tmp_path, **{
        name: good, "ayafileio-3.0.0.dist-info/WHEEL": b"Tag: py3-none-any\n"})) == [
        "ayafileio-3.0.0.dist-info/WHEEL does not say linux_x86_64"]
    noise = base64.b64encode(bytes(range(256)) * 2000)
    assert wheels.faults(wheel(tmp_path, **{name: good, "ayafileio/util.py": noise})) == [
        f"{(tmp_path / f'ayafileio-3.0.0-{TAG}.whl').stat().st_size} bytes, at most 500000"]
