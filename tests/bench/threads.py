"""How throughput grows with threads, each with a loop: prints it, judges nothing. On a machine that
others use too the time of the processors an operation tells more: it grows where threads contend.

    python tests/bench/threads.py [THREADS [SECONDS]]

With the GIL threads share one processor's worth of Python; without it loops on files of their own
should not wait for each other.
"""

import asyncio
import os
import sys
import tempfile
import threading
import time

import ayafileio

SIZE = 4096
BLOCKS = 256


async def read_at(file, path, until):
    count = 0
    while time.perf_counter() < until:
        for block in range(100):
            await file.read_at(block * SIZE, SIZE)
        count += 100
    return count


async def gather(file, path, until):
    count = 0
    while time.perf_counter() < until:
        await asyncio.gather(*[file.read_at(block * SIZE, SIZE) for block in range(100)])
        count += 100
    return count


async def read(file, path, until):
    count = 0
    while time.perf_counter() < until:
        await file.seek(0)
        for _ in range(BLOCKS):
            await file.read(SIZE)
        count += BLOCKS
    return count


async def open_read_close(file, path, until):
    count = 0
    while time.perf_counter() < until:
        async with ayafileio.open(path, "rb") as one:
            await one.read(SIZE)
        count += 1
    return count


def blocking(file, path, until):
    count = 0
    with open(path, "rb", buffering=0) as one:
        while time.perf_counter() < until:
            for block in range(100):
                os.pread(one.fileno(), SIZE, block * SIZE)
            count += 100
    return count


def rate(work, threads, seconds, paths, shared):
    """Operations a second of all threads together, and µs of processors that each took."""
    counts = [0] * threads
    begin = threading.Barrier(threads)
    file = asyncio.run(opened(paths[0])) if shared else None

    async def main(number):
        mine = file or await ayafileio.open(paths[number], "rb")
        begin.wait()
        counts[number] = await work(mine, paths[number], time.perf_counter() + seconds)
        if mine is not file:
            await mine.close()

    def run(number):
        if work is blocking:
            begin.wait()
            counts[number] = work(None, paths[number], time.perf_counter() + seconds)
        else:
            asyncio.run(main(number))

    used = time.process_time()
    running = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    used = time.process_time() - used
    if file is not None:
        asyncio.run(closed(file))
    return sum(counts) / seconds, used / sum(counts) * 1e6


async def opened(path):
    return await ayafileio.open(path, "rb")


async def closed(file):
    await file.close()


def main():
    most = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count() or 2
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    backend = ayafileio.get_backend_info()["backend"]
    print(f"CPython {sys.version.split()[0]}, the GIL {'on' if gil else 'off'}, {backend}")
    rows = [
        ("os.pread, no loop", blocking, False),
        ("read_at, one at a time", read_at, False),
        ("read_at, 100 by gather", gather, False),
        ("read, one position", read, False),
        ("open, read, close", open_read_close, False),
        ("read_at on one shared file", read_at, True),
    ]
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, str(n)) for n in range(most)]
        for path in paths:
            with open(path, "wb") as made:
                made.write(os.urandom(SIZE * BLOCKS))
        for name, work, shared in rows:
            single, used = rate(work, 1, seconds, paths, shared)
            line = f"{name:28} 1: {single / 1e3:5.0f} k/s {used:5.2f} µs"
            for threads in range(2, most + 1):
                many, used = rate(work, threads, seconds, paths, shared)
                line += f" | {threads}: {many / 1e3:5.0f} k/s = {many / single:.2f} {used:5.2f} µs"
            print(line, flush=True)


if __name__ == "__main__":
    main()
