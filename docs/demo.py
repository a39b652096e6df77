"""Real asynchronous file work through ayafileio, each part checked against the built-in open().

Usage: demo.py [FOLDER]: files are made in a temporary folder inside FOLDER (default: here).
"""

import asyncio
import hashlib
import os
import random
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ayafileio

WRITERS, RECORDS_EACH = 50, 100
READS, READ_SIZE = 100_000, 256
LINES = 1_000_000
COPIES_AT_ONCE = 16


class CheckFailed(Exception):
    pass


def check(good: bool, what: str) -> None:
    if not good:
        raise CheckFailed(what)
    print(f"   checked: {what}")


@contextmanager
def measured(title: str, count: int, unit: str) -> Iterator[None]:
    """Prints how fast the block was and which routes served it."""
    print(f"\n{title}", flush=True)
    before, start = routes(), time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    served = {name: n - before[name] for name, n in routes().items()}
    shown = ", ".join(f"{name} {n:,}" for name, n in served.items() if n) or "none"
    print(f"   {count:,} {unit} in {seconds:.2f} s: {count / seconds:,.0f} a second")
    print(f"   by {ayafileio.get_backend_info()['backend']}; operations by route: {shown}")


def routes() -> dict[str, int]:
    """How many operations each route has served in this process."""
    return ayafileio.stats()["routes"]


async def append_records(folder: Path) -> None:
    path = folder / "records.log"

    def record(writer: int, number: int) -> bytes:
        return f"writer {writer:02d} record {number:03d} {'.' * 40}\n".encode()

    async def write(writer: int) -> None:
        for number in range(RECORDS_EACH):
            async with ayafileio.open(path, "ab") as f:
                await f.write(record(writer, number))

    with measured(
        f"{WRITERS} writers append {RECORDS_EACH} records each, opening and closing for each",
        WRITERS * RECORDS_EACH,
        "records",
    ):
        await asyncio.gather(*(write(writer) for writer in range(WRITERS)))

    with open(path, "rb") as f:
        found = f.readlines()
    # A writer's own records keep their order, so a stable sort by writer gives all in order.
    found.sort(key=lambda line: line[:9])
    wanted = [record(w, n) for w in range(WRITERS) for n in range(RECORDS_EACH)]
    check(found == wanted, "every record is there once, whole, and in its writer's order")


async def read_many_places(folder: Path) -> None:
    path = folder / "data.bin"
    chosen = random.Random(1)
    with open(path, "wb") as f:
        f.write(chosen.randbytes(16 << 20))
    offsets = [chosen.randrange((16 << 20) - READ_SIZE) for _ in range(READS)]

    with measured(f"{READS:,} concurrent reads of {READ_SIZE} bytes on one file", READS, "reads"):
        async with ayafileio.open(path, "rb") as f:
            got = await asyncio.gather(*(f.read_at(offset, READ_SIZE) for offset in offsets))

    with open(path, "rb") as f:
        data = f.read()
    wanted = [data[offset : offset + READ_SIZE] for offset in offsets]
    check(got == wanted, "every read gave what open() reads there")


async def read_lines(folder: Path) -> None:
    path = folder / "text.txt"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{n}: grüße, 世界, {'x' * (n % 60)}\n" for n in range(LINES))

    digest = hashlib.sha1()
    with measured(f"a text file of {path.stat().st_size >> 20} MiB by line", LINES, "lines"):
        async with ayafileio.open(path, "r", encoding="utf-8") as f:
            async for line in f:
                digest.update(line.encode())

    wanted = hashlib.sha1()
    with open(path, encoding="utf-8") as f:
        for line in f:
            wanted.update(line.encode())
    check(digest.digest() == wanted.digest(), "the lines are those of open()")


async def copy_library(folder: Path) -> None:
    source = Path(sysconfig.get_path("stdlib"))
    target = folder / "library"
    files: list[Path] = []
    for parent, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in ("site-packages", "__pycache__")]
        inside = Path(parent).relative_to(source)
        (target / inside).mkdir(parents=True)
        files += [inside / name for name in names if (Path(parent) / name).is_file()]

    rest = iter(files)

    async def copy() -> int:
        size = 0
        for path in rest:
            size += await ayafileio.acopy(source / path, target / path)
        return size

    with measured(f"a copy of {source}", len(files), "files"):
        sizes = await asyncio.gather(*(copy() for _ in range(COPIES_AT_ONCE)))

    for path in files:
        with open(source / path, "rb") as one, open(target / path, "rb") as other:
            if one.read() != other.read():
                raise CheckFailed(f"the copy of {path} differs")
    check(True, f"all copies, {sum(sizes) >> 20} MiB, are equal to their originals")


async def main() -> None:
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    info = ayafileio.get_backend_info()
    version = sys.version.split()[0]
    print(f"Python {version}, ayafileio {ayafileio.__version__}, {info['os_version']}")
    print(f"backend: {info['backend']} ({info['description']})")
    for name, reason in info["unused"].items():
        print(f"   not {name}: {reason}")
    with tempfile.TemporaryDirectory(prefix="demo-", dir=where) as folder:
        for part in (append_records, read_many_places, read_lines, copy_library):
            await part(Path(folder))
    print("\nAll checks passed.")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except CheckFailed as failure:
        sys.exit(f"demo: this does not hold: {failure}")
