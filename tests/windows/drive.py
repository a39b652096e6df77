"""What a Windows Python does with ayafileio, on the loop that argv[1] names: proactor or selector.

Run by test_windows.py in a folder of its own; prints the name of each part that held, and ends
with status 1 at the first that did not.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import subprocess
import sys
import threading

import ayafileio


async def quick_start() -> None:
    async with ayafileio.open("привет-日本.txt", "w", encoding="utf-8") as f:
        await f.write("one\ntwo\n")
    with open("привет-日本.txt", "rb") as plain:
        assert plain.read() == b"one\r\ntwo\r\n"
    async with ayafileio.open("привет-日本.txt", "r", encoding="utf-8") as f:
        assert await f.read() == "one\ntwo\n"
    assert ayafileio.get_backend_info()["backend"] == "iocp", ayafileio.get_backend_info()


async def text() -> None:
    lines = [f"line {i} ä日\n" for i in range(2000)]
    async with ayafileio.open("text.txt", "w", encoding="utf-16") as f:
        await f.writelines(lines)
    async with ayafileio.open("text.txt", "r", encoding="utf-16") as f:
        assert [line async for line in f] == lines
    with open("text.txt", encoding="utf-16") as plain:
        assert plain.readlines() == lines
    async with ayafileio.open("append.txt", "a+b") as f:
        await f.write(b"abc")
        await f.seek(0)
        assert await f.read() == b"abc"
        await f.seek(1)
        await f.write(b"def")
        await f.flush()
        assert await f.truncate(4) == 4
    assert open("append.txt", "rb").read() == b"abcd"


async def stream() -> None:
    data = os.urandom(3_000_001)
    async with ayafileio.open("stream.bin", "w+b") as f:
        for at in range(0, len(data), 70_000):
            await f.write(data[at:at + 70_000])
        await f.seek(0)
        assert await f.read() == data
        await f.seek(-5, 2)
        assert await f.read() == data[-5:]
        assert (await f.stat()).st_size == len(data)
        await f.fsync()
    assert open("stream.bin", "rb").read() == data


async def read_many() -> None:
    data = bytes(range(256)) * 64
    async with ayafileio.open("many.bin", "wb") as f:
        await f.write(data)
    async with ayafileio.open("many.bin", "rb") as f:
        spans = [(i * 37 % 16000, 16) for i in range(1000)]
        assert await f.read_many(spans) == [data[o:o + n] for o, n in spans]


async def many_reads() -> None:
    data = os.urandom(65536)
    with open("random.bin", "wb") as plain:
        plain.write(data)
    async with ayafileio.open("random.bin", "rb") as f:
        offsets = [(i * 7919) % 65000 for i in range(10_000)]
        tasks = [asyncio.create_task(f.read_at(o, 64)) for o in offsets]
        assert [await t for t in tasks] == [data[o:o + 64] for o in offsets]
        got = await asyncio.gather(*[f.read_at(o, 64) for o in offsets])
        assert got == [data[o:o + 64] for o in offsets]


async def cancel() -> None:
    end, other = os.pipe()
    async with ayafileio.open(end, "rb", buffering=0) as f:
        reading = asyncio.ensure_future(f.read(10))
        await asyncio.sleep(0.1)
        reading.cancel()
        try:
            await reading
            raise AssertionError("the read was not cancelled")
        except asyncio.CancelledError:
            pass
        try:
            await asyncio.wait_for(f.read(10), 0.1)
            raise AssertionError("the read did not time out")
        except asyncio.TimeoutError:
            pass
        os.write(other, b"late")
        assert await asyncio.wait_for(f.read(10), 10) == b"late"
        os.close(other)
        assert await asyncio.wait_for(f.read(10), 10) == b""
    try:
        os.fstat(end)
        raise AssertionError("the descriptor is still open")
    except OSError:
        pass
    async with ayafileio.open("random.bin", "rb") as f:
        reads = [asyncio.ensure_future(f.read_at(i, 4096)) for i in range(1000)]
        for one in reads[::2]:
            one.cancel()
        done = await asyncio.gather(*reads, return_exceptions=True)
        assert all(isinstance(x, bytes) and len(x) == 4096 for x in done[1::2])


async def errors() -> None:
    for path, kind, code, number in (
        ("missing.txt", FileNotFoundError, 2, errno.ENOENT),
        ("no-folder\\file", FileNotFoundError, 3, errno.ENOENT),
        (".", PermissionError, 5, errno.EACCES),
    ):
        try:
            async with ayafileio.open(path, "rb"):
                raise AssertionError(f"{path} was opened")
        except OSError as error:
            assert type(error) is kind and error.errno == number, error
            assert error.winerror == code and error.filename == path, error
    open("there.txt", "w").close()
    try:
        await ayafileio.open("there.txt", "xb")
        raise AssertionError("an existing file was made")
    except FileExistsError as error:
        assert error.winerror == 80 and error.filename == "there.txt", error
    async with ayafileio.open("there.txt", "rb") as f:
        try:
            await f.truncate(1)
            raise AssertionError("a file opened for reading was truncated")
        except io.UnsupportedOperation:
            pass


async def descriptors() -> None:
    with open("fd.bin", "wb") as plain:
        plain.write(b"0123456789")
    descriptor = os.open("fd.bin", os.O_RDWR | os.O_BINARY)
    async with ayafileio.open(descriptor, "r+b", closefd=False) as f:
        assert f.fileno() == descriptor
        assert await f.read(4) == b"0123"
        await f.write(b"x")
    assert os.read(descriptor, 10) == b"56789"
    async with ayafileio.open(descriptor, "rb") as f:
        assert await f.read_at(4, 2) == b"x5"
    try:
        os.read(descriptor, 1)
        raise AssertionError("the descriptor is still open")
    except OSError:
        pass
    async with ayafileio.open("fd.bin", "rb") as f:
        assert os.fstat(f.fileno()).st_size == 10 and not f.isatty()
    os.remove("fd.bin")


PARTS = [quick_start, text, stream, read_many, many_reads, cancel, errors, descriptors]


async def two_loops() -> None:
    """A file of one loop read by others, in turn, in threads of their own."""
    async with ayafileio.open("random.bin", "rb") as f:
        expected = await f.read_at(100, 50)
        found = []

        async def read() -> None:
            found.append(await f.read_at(100, 50))

        def other() -> None:
            with asyncio.Runner(loop_factory=FACTORY) as runner:
                runner.run(read())

        for _ in range(3):
            thread = threading.Thread(target=other)
            thread.start()
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
        assert found == [expected] * 3


def many_loops() -> None:
    async def read() -> None:
        async with ayafileio.open("random.bin", "rb") as f:
            assert len(await f.read(10)) == 10

    before = threading.active_count()
    for _ in range(50):
        with asyncio.Runner(loop_factory=FACTORY) as runner:
            runner.run(read())
    assert threading.active_count() == before


def at_exit() -> None:
    """What was written is there although nobody closed the file."""
    code = ("import asyncio, ayafileio\n"
            "async def main():\n"
            "    global f\n"
            "    f = await ayafileio.open('exit.bin', 'wb')\n"
            "    await f.write(b'kept')\n"
            "asyncio.run(main())\n")
    subprocess.run([sys.executable, "-c", code], check=True, stdin=subprocess.DEVNULL)
    with open("exit.bin", "rb") as plain:
        assert plain.read() == b"kept"


FACTORY = {"proactor": asyncio.ProactorEventLoop,
           "selector": asyncio.SelectorEventLoop}[sys.argv[1]]

if __name__ == "__main__":
    for part in [*PARTS, two_loops]:
        with asyncio.Runner(loop_factory=FACTORY) as runner:
            runner.run(asyncio.wait_for(part(), 60))
        print("held:", part.__name__, flush=True)
    for plain_part in (many_loops, at_exit):
        plain_part()
        print("held:", plain_part.__name__, flush=True)
