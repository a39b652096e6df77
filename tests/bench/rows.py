"""What is measured: each row is a piece of work that every library does in its own way.

A row's work runs in a process of its own. It counts operations until its time is over, and takes
what came back for wrong where it is not what was written. Only what lies between run.start() and
run.stop() is timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from libraries import Library, Missing

KIB, MIB = 1 << 10, 1 << 20
CELL = 256  # each begins with its number
DATA_SIZE, COLD_SIZE = 64 * MIB, 512 * MIB
SMALL_COUNT, SMALL_SIZE = 1000, 4096
LINE_COUNT = 200_000
LAP = 32  # operations between two looks at the clock
perf = time.perf_counter


def mark(offset: int) -> bytes:
    return (offset // CELL).to_bytes(8, "little")


# -- files -------------------------------------------------------------------------------------


def fill(path: str, size: int) -> None:
    """Writes `size` bytes of numbered cells; nothing where they are there already."""
    if os.path.exists(path) and os.path.getsize(path) == size:
        return
    padding = bytes(range(8, 256))
    with open(path + ".new", "wb") as file:
        for start in range(0, size, 4 * MIB):
            end = min(start + 4 * MIB, size)
            file.write(b"".join(mark(at) + padding for at in range(start, end, CELL)))
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def prepare(folder: str, cold: bool) -> None:
    os.makedirs(folder + "/small", exist_ok=True)
    fill(folder + "/data", DATA_SIZE)
    for number in range(SMALL_COUNT):
        fill(f"{folder}/small/{number:04}", SMALL_SIZE)
    if not os.path.exists(folder + "/lines"):
        with open(folder + "/lines", "w", encoding="utf-8") as file:
            file.writelines(f"line {n} of a text with ä and ö in it\n" for n in range(LINE_COUNT))
    if cold:
        fill(folder + "/cold", COLD_SIZE)


def warm(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def drop(path: str) -> None:
    """Takes the file out of the page cache."""
    number = os.open(path, os.O_RDONLY)
    os.fsync(number)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(number)


def random_offsets(seed: int, count: int, step: int, size: int) -> list[int]:
    chosen = random.Random(seed)
    return [chosen.randrange(size // step) * step for _ in range(count)]


# -- a run -------------------------------------------------------------------------------------


@dataclass
class Run:
    folder: str
    seconds: float
    scale: float = 1.0  # of counts that a row has
    wall: float = 0.0
    cpu: float = 0.0
    count: int = 0
    began: float = 0.0
    ended: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        self.cpu -= time.process_time()
        self.wall -= perf()
        self.began = perf()
        self.end = self.began + self.seconds

    def stop(self) -> None:
        self.ended = perf()
        self.wall += perf()
        self.cpu += time.process_time()

    async def repeat(self, batch: Callable[[], Awaitable[int]]) -> None:
        """Batches, which say how many operations they were, until the time is over."""
        self.start()
        while True:
            self.count += await batch()
            if perf() >= self.end:
                break
        self.stop()

    async def workers(self, laps: list[Callable[[], Awaitable[int]]]) -> None:
        """The same by tasks side by side, each with a lap of its own; 0: nothing is left to do."""

        async def work(lap: Callable[[], Awaitable[int]]) -> int:
            count = 0
            while perf() < self.end and (made := await lap()):
                count += made
            return count

        self.start()
        self.count += sum(await asyncio.gather(*map(work, laps)))
        self.stop()

    @contextlib.contextmanager
    def scratch(self) -> Iterator[str]:
        path = f"{self.folder}/scratch.{os.getpid()}"
        try:
            yield path
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def check(holds: bool) -> None:
    if not holds:
        raise AssertionError("wrong bytes")


Work = Callable[[Library, Run], Awaitable[None]]


# -- positioned reads --------------------------------------------------------------------------


def lap_of(read_at: Any, marks: list[tuple[int, bytes]], place: int,
           size: int) -> Callable[[], Awaitable[int]]:
    async def lap() -> int:
        nonlocal place
        for offset, first in marks[place : place + LAP]:
            data = await read_at(offset, size)
            check(data.startswith(first) and len(data) == size)
        place = (place + LAP) % len(marks)
        return LAP

    return lap


async def reads(library: Library, run: Run, tasks: int, shared: bool) -> None:
    path = run.folder + "/data"
    warm(path)
    files = [await library.open(path, "rb") for _ in range(1 if shared else tasks)]
    if shared:
        ways = [library.at(files[0])] * tasks
    else:
        ways = [library.own_at(file) for file in files]
    await ways[0](0, 4096)
    # One list for all tasks: a library that lets them take turns is not to pay for 64 in the cache.
    marks = [(offset, mark(offset)) for offset in random_offsets(1, 1024, 4096, DATA_SIZE)]
    places = [number * LAP % len(marks) for number in range(tasks)]
    await run.workers([lap_of(way, marks, place, 4096) for way, place in zip(ways, places)])
    for file in files:
        await library.close(file)


async def seek_loop(library: Library, run: Run) -> None:
    file = await library.open(run.folder + "/small/0007", "rb")
    seek, read = library.seek(file), library.read(file)

    async def batch() -> int:
        for _ in range(LAP):
            await seek(0)
            check(len(await read(4096)) == 4096)
        return LAP

    await run.repeat(batch)
    await library.close(file)


async def tasks_256(library: Library, run: Run, count: int, cap: float = 10.0) -> None:
    """A task for each read; what was not begun when the cap is reached is not counted."""
    count = int(count * run.scale)
    path = run.folder + "/data"
    warm(path)
    file = await library.open(path, "rb")
    read_at = library.at(file)
    offsets = random_offsets(count, 4096, CELL, DATA_SIZE)
    wanted = [(offset, mark(offset)) for offset in offsets] * (count // 4096 + 1)
    await read_at(0, CELL)
    end = perf() + cap

    async def one(offset: int, first: bytes) -> int:
        if perf() > end:
            return 0
        check((await read_at(offset, CELL)).startswith(first))
        return 1

    run.start()
    run.count = sum(await asyncio.gather(*(one(*each) for each in wanted[:count])))
    run.stop()
    await library.close(file)


async def gather_256(library: Library, run: Run, count: int) -> None:
    """All reads in flight at once, without tasks where the library needs none."""
    if type(library).__name__ not in ("Sync", "Ayafileio", "Turbofile"):
        raise Missing("would queue on a lock or make a task each; see the rows above")
    count = max(1, int(count * run.scale))
    path = run.folder + "/data"
    warm(path)
    file = await library.open(path, "rb")
    read_at = library.at(file)
    offsets = random_offsets(count, min(count, 4096), CELL, DATA_SIZE)
    offsets = (offsets * (count // len(offsets) + 1))[:count]
    await read_at(0, CELL)

    async def batch() -> int:
        got = await asyncio.gather(*[read_at(offset, CELL) for offset in offsets])
        for offset, data in zip(offsets[:100], got):
            check(data.startswith(mark(offset)))
        return count

    await run.repeat(batch)
    await library.close(file)


async def thousand(library: Library, run: Run, kind: str) -> None:
    path = run.folder + "/data"
    warm(path)
    file = await library.open(path, "rb")
    spans = [(offset, 4096) for offset in random_offsets(3, 1000, 4096, DATA_SIZE)]
    marks = [mark(offset) for offset, _ in spans]
    many = library.read_many(file) if kind == "many" else None
    read_at = library.at(file)
    await read_at(0, CELL)

    async def batch() -> int:
        if many is not None:
            got = await many(spans)
        else:
            got = await asyncio.gather(*[read_at(*span) for span in spans])
        check(all(map(bytes.startswith, got, marks)))
        return len(spans)

    await run.repeat(batch)
    await library.close(file)


async def write_thousand(library: Library, run: Run) -> None:
    with run.scratch() as path:
        fill(path, 8 * MIB)
        file = await library.open(path, "r+b")
        many = library.write_many(file)
        chosen = random.Random(5).sample(range(2048), 1000)
        pairs = [(number * 4096, number.to_bytes(4, "little") * 1024) for number in chosen]

        async def batch() -> int:
            await many(pairs)
            return len(pairs)

        await run.repeat(batch)
        await library.close(file)
        with open(path, "rb") as plain:
            for offset, data in pairs:
                plain.seek(offset)
                check(plain.read(4096) == data)


async def cold_reads(library: Library, run: Run, direct: bool) -> None:
    path = run.folder + "/cold"
    drop(path)
    offsets = random.Random(os.getpid()).sample(range(COLD_SIZE // 4096), COLD_SIZE // 4096)
    rest = iter(offsets)
    files, ways = [], []
    for _ in range(64):
        if direct:
            ways.append(await library.open_direct(path))
        else:
            files.append(await library.open(path, "rb"))
            ways.append(library.own_at(files[-1]))

    def lap_of_cold(read_at: Any) -> Callable[[], Awaitable[int]]:
        async def lap() -> int:
            page = next(rest, None)
            if page is None:
                return 0
            data = await read_at(page * 4096, 4096)
            check(data.startswith(mark(page * 4096)))
            return 1

        return lap

    await run.workers([lap_of_cold(way) for way in ways])
    for file in files:
        await library.close(file)


# -- whole files -------------------------------------------------------------------------------


async def many_files(library: Library, run: Run, own: bool) -> None:
    paths = [f"{run.folder}/small/{number:04}" for number in range(SMALL_COUNT)]
    for path in paths:
        warm(path)

    async def one(path: str) -> bytes:
        file = await library.open(path, "rb")
        data = await library.read(file)()
        await library.close(file)
        return data

    async def batch() -> int:
        if own:
            got = await library.whole_files(paths)
        else:
            got = await asyncio.gather(*map(one, paths))
        check(sum(map(len, got)) == SMALL_COUNT * SMALL_SIZE)
        return len(paths)

    await run.repeat(batch)


async def open_loop(library: Library, run: Run) -> None:
    path = run.folder + "/small/0007"
    warm(path)

    async def batch() -> int:
        for _ in range(LAP):
            file = await library.open(path, "rb")
            check(len(await library.read(file)(4096)) == 4096)
            await library.close(file)
        return LAP

    await run.repeat(batch)


async def appends(library: Library, run: Run) -> None:
    record = b"x" * 79 + b"\n"
    with run.scratch() as path:
        open(path, "wb").close()

        async def lap() -> int:
            for _ in range(4):
                file = await library.open(path, "ab")
                await library.write(file)(record)
                await library.close(file)
            return 4

        try:
            await run.workers([lap] * 50)
        except NotImplementedError as error:
            raise Missing(str(error) or "no append mode") from error
        with open(path, "rb") as plain:
            check(plain.read() == record * run.count)


async def copies(library: Library, run: Run) -> None:
    source = run.folder + "/cold"
    warm(source)
    with run.scratch() as path:

        async def batch() -> int:
            await library.copy(source, path)
            return COLD_SIZE // MIB

        await run.repeat(batch)
        check(os.path.getsize(path) == COLD_SIZE)


# -- streams -----------------------------------------------------------------------------------


async def sequential_reads(library: Library, run: Run, size: int) -> None:
    path = run.folder + "/data"
    warm(path)

    async def batch() -> int:
        file = await library.open(path, "rb")
        read, total, count = library.read(file), 0, 0
        while data := await read(size):
            total += len(data)
            count += 1
        await library.close(file)
        check(total == DATA_SIZE)
        return count

    await run.repeat(batch)


async def sequential_writes(library: Library, run: Run, size: int) -> None:
    total = DATA_SIZE if size < 4 * MIB else 2 * DATA_SIZE
    block = os.urandom(size)
    with run.scratch() as path:

        async def batch() -> int:
            file = await library.open(path, "wb")
            write = library.write(file)
            for _ in range(total // size):
                await write(block)
            await library.close(file)
            return total // size

        await run.repeat(batch)
        digest = hashlib.sha256(block * (total // size)).digest()
        with open(path, "rb") as plain:
            check(hashlib.sha256(plain.read()).digest() == digest)


async def chunks(library: Library, run: Run, size: int, written: bool) -> None:
    """A hundred chunks after an open and before a close; only the one side is timed."""
    pieces = [os.urandom(size) for _ in range(100)]
    with run.scratch() as path:
        end = perf() + 2 * run.seconds
        while perf() < end or run.count == 0:
            if written:
                run.start()
            file = await library.open(path, "wb")
            for piece in pieces:
                await library.write(file)(piece)
            await library.close(file)
            if written:
                run.stop()
            else:
                run.start()
            file = await library.open(path, "rb")
            got = [await library.read(file)(size) for _ in pieces]
            await library.close(file)
            if not written:
                run.stop()
            check(got == pieces)
            run.count += len(pieces)


async def small_writes(library: Library, run: Run, text: bool) -> None:
    rows: list[Any] = ["%08d" % number + "." * 55 + "\n" for number in range(1000)]
    if not text:
        rows = [row.encode() for row in rows]
    with run.scratch() as path:
        options = {"encoding": "utf-8"} if text else {}
        file = await library.open(path, "w" if text else "wb", **options)
        write = library.write(file)

        async def batch() -> int:
            for row in rows:
                await write(row)
            return len(rows)

        await run.repeat(batch)
        run.start()
        await library.close(file)
        run.stop()
        check(os.path.getsize(path) == run.count * 64)


async def text_lines(library: Library, run: Run, at_once: bool) -> None:
    path = run.folder + "/lines"
    with open(path, encoding="utf-8") as plain:
        wanted = len(plain.read())

    async def batch() -> int:
        file = await library.open(path, "r", encoding="utf-8")
        total = 0
        if at_once:
            got = await library.readlines(file)
            total = sum(map(len, got))
        else:
            async for line in library.lines(file):
                total += len(line)
        await library.close(file)
        check(total == wanted)
        return LINE_COUNT

    await run.repeat(batch)


# -- the loop's other tasks --------------------------------------------------------------------


async def lag(library: Library, run: Run, what: str) -> None:
    """How late a timer of 1 ms comes beside 64 tasks that read or write."""
    beats: list[tuple[float, float]] = []  # when it should have come, and when it came
    over = False

    async def heartbeat() -> None:
        while not over:
            due = perf() + 0.001
            await asyncio.sleep(0.001)
            beats.append((due, perf()))

    beating = asyncio.ensure_future(heartbeat())
    await asyncio.sleep(0)
    if what == "write":
        with run.scratch() as path:
            block = os.urandom(4 * MIB)
            files = [await library.open(f"{path}.{n}", "wb") for n in range(4)]

            def lap_of_write(file: Any) -> Callable[[], Awaitable[int]]:
                async def lap() -> int:
                    await library.write(file)(block)
                    return 1

                return lap

            try:
                await run.workers([lap_of_write(file) for file in files])
                for file in files:
                    await library.close(file)
            finally:
                for number in range(4):
                    os.unlink(f"{path}.{number}")
    elif what == "cold":
        await cold_reads(library, run, direct=False)
    else:
        await reads(library, run, tasks=64, shared=True)
    over = True
    await beating
    # Of a beat that was late because of what came before or after, only what lies within.
    late = sorted(min(came, run.ended) - max(due, run.began) for due, came in beats
                  if due < run.ended and came > run.began) or [0.0]
    run.extra = {
        "lag_p50_ms": late[len(late) // 2] * 1000,
        "lag_p99_ms": late[int(len(late) * 0.99)] * 1000,
        "lag_max_ms": late[-1] * 1000,
    }


# -- scaling -----------------------------------------------------------------------------------


async def open_files(library: Library, run: Run, count: int) -> None:
    """A read of each of so many open files in turn."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 100:
        raise Missing(f"no more than {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
    path = run.folder + "/data"
    warm(path)
    files = [await library.open(path, "rb") for _ in range(count)]
    ways = [library.own_at(file) for file in files]
    offsets = random_offsets(count, 4096, 4096, DATA_SIZE)
    place = 0

    async def batch() -> int:
        nonlocal place
        for _ in range(LAP):
            offset = offsets[place % 4096]
            check((await ways[place % count](offset, 4096)).startswith(mark(offset)))
            place += 1
        return LAP

    await run.repeat(batch)
    for file in files:
        await library.close(file)


# -- the table ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    work: Work
    limit: tuple[str, ...] = ()  # arguments of limit.c after the folder and the seconds
    cold: bool = False  # needs the large file
    large: bool = False  # only where asked for by name, or by --all
    only: tuple[str, ...] = ()  # libraries; all where empty

    @property
    def group(self) -> str:
        return self.name.split("_")[0]


def row(name: str, title: str, work: Callable[..., Awaitable[None]], *limit: str,
        **options: Any) -> Row:
    settings = {key: options.pop(key) for key in ("cold", "large", "only") if key in options}
    return Row(name, title, partial(work, **options), limit, **settings)


SIZES = {"1k": KIB, "32k": 32 * KIB, "320k": 320 * KIB, "1m": MIB}
OURS = ("sync", "ayafileio")

ROWS: tuple[Row, ...] = (
    row("readat4k_x1", "4 KiB at random offsets of one file, one task", reads, "read", "4096",
        tasks=1, shared=True),
    row("readat4k_x64", "the same, 64 tasks", reads, "read", "4096", tasks=64, shared=True),
    *(row(f"randread4k_x{tasks}", f"seek and read 4 KiB, {tasks} tasks, a file each", reads,
          "read", "4096", tasks=tasks, shared=False) for tasks in (1, 16, 64, 256)),
    row("seekloop", "seek to the start and read 4 KiB", seek_loop, "read", "4096"),
    row("randread256_10k", "10,000 tasks, a 256-byte read each", tasks_256, "read", "256",
        count=10_000),
    row("randread256_100k", "100,000 tasks, a 256-byte read each", tasks_256, "read", "256",
        count=100_000),
    row("randread256_500k", "500,000 tasks, a 256-byte read each", tasks_256, "read", "256",
        count=500_000, large=True),
    row("gather256_500k", "500,000 reads of 256 bytes by one gather", gather_256, "read", "256",
        count=500_000, large=True),
    row("gather_reads_1000", "1,000 reads of 4 KiB by one gather", thousand, "read", "4096",
        kind="gather"),
    row("read_many_1000", "1,000 reads of 4 KiB by one call", thousand, "read", "4096",
        kind="many"),
    row("write_many", "1,000 writes of 4 KiB by one call", write_thousand, "rewrite", "4096"),
    row("manyfiles", "1,000 files of 4 KiB read whole, a task each", many_files, "open",
        own=False),
    row("manyfiles_native", "the same in the library's own way", many_files, "open", own=True),
    row("openloop", "open, read 4 KiB, close", open_loop, "open"),
    row("append50", "open, append 80 bytes, close; 50 tasks", appends, "append"),
    *(row(f"seqread_{name}", f"a file of 64 MiB by {name}", sequential_reads, "sequential",
          str(size), size=size) for name, size in
      (("4k", 4 * KIB), ("64k", 64 * KIB), ("4m", 4 * MIB))),
    *(row(f"seqwrite_{name}", f"writes of {name}", sequential_writes, "write", str(size),
          size=size) for name, size in (("64k", 64 * KIB), ("1m", MIB), ("4m", 4 * MIB))),
    *(row(f"chunks_write_{name}", f"100 chunks of {name} written", chunks, size=size,
          written=True) for name, size in SIZES.items()),
    *(row(f"chunks_read_{name}", f"100 chunks of {name} read", chunks, size=size,
          written=False) for name, size in SIZES.items()),
    row("writesmall", "writes of 64 bytes", small_writes, text=False),
    row("writesmall_text", "writes of 64 characters", small_writes, text=True),
    row("lines", "lines of text by async for", text_lines, at_once=False),
    row("readlines", "lines of text by readlines()", text_lines, at_once=True),
    row("coldread_x64", "4 KiB not in the page cache, 64 tasks", cold_reads, "cold", direct=False,
        cold=True),
    row("coldread_direct_x64", "4 KiB past the page cache, 64 tasks", cold_reads, "direct",
        direct=True, cold=True),
    row("copy512", "a copy of 512 MiB, by the MiB", copies, cold=True),
    row("looplag_cached", "lag beside 64 readers of cached data", lag, what="cached"),
    row("looplag_cold", "lag beside 64 readers of cold data", lag, what="cold", cold=True),
    row("looplag_write", "lag beside 4 writers of 4 MiB", lag, what="write"),
    *(row(f"inflight_{count}", f"{count:,} reads of 256 bytes in flight", gather_256, count=count,
          large=count > 100_000, only=OURS) for count in (1, 100, 10_000, 100_000, 500_000)),
    *(row(f"files_{count}", f"reads of {count:,} open files in turn", open_files, count=count,
          only=OURS) for count in (1, 100, 1_000, 10_000)),
)
