"""ayafileio side by side with the blocking calls of the standard library, on cached files.

Usage: bench.py [FOLDER]. Each row is measured in rounds that alternate between the two; shown are
the medians, in thousands of operations a second, and their ratio. The blocking calls hold the event
loop all the while, so they are a limit, not a choice.
"""

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import ayafileio

ROUNDS = 5
BLOCK = 4096
FILE_SIZE = 64 << 20

Work = Callable[[Path, int], Awaitable[None]]


def offsets(count: int) -> list[int]:
    chosen = random.Random(count)
    return [chosen.randrange(FILE_SIZE // BLOCK) * BLOCK for _ in range(count)]


async def read_one_by_one(folder: Path, count: int) -> None:
    async with ayafileio.open(folder / "data") as f:
        for offset in offsets(count):
            await f.read_at(offset, BLOCK)


async def read_together(folder: Path, count: int) -> None:
    async with ayafileio.open(folder / "data") as f:
        await asyncio.gather(*(f.read_at(offset, BLOCK) for offset in offsets(count)))


async def read_blocking(folder: Path, count: int) -> None:
    with open(folder / "data", "rb") as f:
        fd = f.fileno()
        for offset in offsets(count):
            os.pread(fd, BLOCK, offset)


async def small_writes(folder: Path, count: int) -> None:
    async with ayafileio.open(folder / "written", "wb") as f:
        for _ in range(count):
            await f.write(b"x" * 80)


async def small_writes_blocking(folder: Path, count: int) -> None:
    with open(folder / "written", "wb") as f:
        for _ in range(count):
            f.write(b"x" * 80)


async def large_writes(folder: Path, count: int) -> None:
    data = bytes(64 << 10)
    async with ayafileio.open(folder / "written", "wb") as f:
        for _ in range(count):
            await f.write(data)


async def large_writes_blocking(folder: Path, count: int) -> None:
    data = bytes(64 << 10)
    with open(folder / "written", "wb") as f:
        for _ in range(count):
            f.write(data)


async def lines(folder: Path, count: int) -> None:
    async with ayafileio.open(folder / "lines", "r", encoding="utf-8") as f:
        async for _ in f:
            pass


async def lines_blocking(folder: Path, count: int) -> None:
    with open(folder / "lines", encoding="utf-8") as f:
        for _ in f:
            pass


async def appends(folder: Path, count: int) -> None:
    async def work(name: int) -> None:
        for _ in range(count // 50):
            async with ayafileio.open(folder / f"append{name}", "ab") as f:
                await f.write(b"x" * 80)

    await asyncio.gather(*(work(name) for name in range(50)))


async def appends_blocking(folder: Path, count: int) -> None:
    for name in range(50):
        for _ in range(count // 50):
            with open(folder / f"append{name}", "ab") as f:
                f.write(b"x" * 80)


async def small_files(folder: Path, count: int) -> None:
    await ayafileio.read_bytes_many([folder / "small"] * count)


async def small_files_blocking(folder: Path, count: int) -> None:
    for _ in range(count):
        with open(folder / "small", "rb") as f:
            f.read()


ROWS: list[tuple[str, int, Work, Work]] = [
    ("4 KiB reads, one by one", 50_000, read_one_by_one, read_blocking),
    ("4 KiB reads, all at once", 50_000, read_together, read_blocking),
    ("80-byte writes", 200_000, small_writes, small_writes_blocking),
    ("64 KiB writes", 2_000, large_writes, large_writes_blocking),
    ("lines of text", 200_000, lines, lines_blocking),
    ("open, append, close; 50 tasks", 5_000, appends, appends_blocking),
    ("open, read, close", 10_000, small_files, small_files_blocking),
]


def rate(work: Work, folder: Path, count: int) -> float:
    start = time.perf_counter()
    asyncio.run(work(folder, count))
    return count / (time.perf_counter() - start) / 1000


def main() -> None:
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=where) as name:
        folder = Path(name)
        (folder / "data").write_bytes(os.urandom(FILE_SIZE))
        (folder / "lines").write_text("a line of text, with ä\n" * 200_000, "utf-8")
        (folder / "small").write_bytes(b"x" * 1000)
        print(f"backend: {ayafileio.get_backend_info()['backend']}; thousands a second")
        print(f"{'':32}{'ayafileio':>10}{'blocking':>10}{'ratio':>8}")
        for title, count, ours, theirs in ROWS:
            rounds = [
                (rate(ours, folder, count), rate(theirs, folder, count)) for _ in range(ROUNDS)
            ]
            mine, other = (statistics.median(column) for column in zip(*rounds))
            print(f"{title:32}{mine:10.1f}{other:10.1f}{mine / other:8.2f}", flush=True)


if __name__ == "__main__":
    main()
