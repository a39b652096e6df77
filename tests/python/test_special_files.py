"""Pipes, FIFOs, terminals, sockets, devices and /proc work where open() works."""

import asyncio
import io
import os
import pty
import socket
import sys
import tty

import pytest

import ayafileio
from support import Heartbeat, descriptors, kernel_threads, run

pytestmark = pytest.mark.usefixtures("backend")


def test_a_pipe_in_both_directions():
    async def main():
        out, into = os.pipe()
        data = os.urandom(1 << 20)
        reader = ayafileio.wrap_file(out, "rb", owns_fd=True)
        writer = ayafileio.wrap_file(into, "wb", owns_fd=True)

        async def send():
            await writer.write(data)
            await writer.close()

        _, got = await asyncio.gather(send(), reader.read())
        assert got == data
        assert await reader.read() == b""
        await reader.close()

    run(main())


def test_a_read_of_a_pipe_is_whole_and_read1_is_not():
    async def main():
        out, into = os.pipe()
        async with ayafileio.wrap_file(out, "rb", owns_fd=True) as reader:
            loop = asyncio.get_running_loop()
            loop.call_later(0.01, os.write, into, b"abc")
            loop.call_later(0.05, os.write, into, b"def\n")
            assert await reader.read(5) == b"abcde"
            os.write(into, b"gh")
            assert await reader.read1(100) == b"f\n"
            assert await reader.read1(100) == b"gh"
            os.write(into, b"line\nrest")
            assert await reader.readline() == b"line\n"
            os.close(into)
            assert await reader.readline() == b"rest"
            assert await reader.readline() == b""

    run(main())


def test_many_idle_pipes_cost_no_threads_and_stop_nothing(tmp_path):
    async def main():
        pairs = [os.pipe() for _ in range(300)]
        readers = [ayafileio.wrap_file(out, "rb", owns_fd=True) for out, _ in pairs]
        async with ayafileio.open(tmp_path / "f", "w+b") as file:
            await file.write_at(0, b"x")
            before = kernel_threads()
            waiting = [reader.read(1) for reader in readers]
            await asyncio.sleep(0.05)
            assert kernel_threads() <= before + 4
            await asyncio.wait_for(file.write_at(0, b"served"), 60)
            assert await asyncio.wait_for(file.read_at(0, 6), 60) == b"served"
            for number, (_, into) in enumerate(pairs):
                os.write(into, bytes([number % 256]))
            assert await asyncio.gather(*waiting) == [bytes([n % 256]) for n in range(300)]
        for (_, into), reader in zip(pairs, readers):
            os.close(into)
            await reader.close()

    run(main())


def test_the_callers_description_stays_blocking(tmp_path):
    async def main():
        out, into = os.pipe()
        async with ayafileio.wrap_file(out, "rb", owns_fd=True) as reader:
            waiting = reader.read(1)
            await asyncio.sleep(0.01)
            assert os.get_blocking(out)
            os.write(into, b"x")
            await waiting
        os.close(into)

    run(main())


def test_a_named_fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)

    async def main():
        reader, writer = await asyncio.gather(ayafileio.aopen(path), ayafileio.aopen(path, "wb"))
        data = os.urandom(300_000)

        async def send():
            await writer.write(data)
            await writer.close()

        _, got = await asyncio.gather(send(), reader.read())
        assert got == data
        assert not reader.seekable()
        await reader.close()

    run(main())


WRITES = """
import sys
for path in sys.argv[1:]:
    with open(path, "wb", 0) as fifo:
        fifo.write(b"first ")
        fifo.write(b"last")
"""


def test_a_fifo_beside_a_file_that_was_just_opened(tmp_path):
    """A directory that is known is not looked at again: what is opened in it may be a FIFO. The
    writer waits in its open(), goes on as soon as somebody opens the other end, and must not find
    that gone."""
    paths = [tmp_path / f"fifo{i}" for i in range(40)]
    for path in paths:
        os.mkfifo(path)
    (tmp_path / "file").write_bytes(b"content")

    async def main():
        before = descriptors()
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITES, *paths)
        for i, path in enumerate(paths):
            if i % 3 == 0:
                await asyncio.sleep(0.01)
            async with ayafileio.open(tmp_path / "file") as file:
                assert await file.read() == b"content"
            async with ayafileio.open(path) as fifo:
                assert await fifo.read() == b"first last"
            async with ayafileio.open(tmp_path / "file") as file:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(ayafileio.aopen(path), 0.02)
        assert await writer.wait() == 0
        del writer
        most = before + 5  # of the loop, its context and its child watcher
        for _ in range(100):
            if descriptors() <= most:
                break
            await asyncio.sleep(0.05)
        assert descriptors() <= most

    run(main())


def test_a_fifo_beside_a_file_waits_for_a_writer_who_is_silent(tmp_path):
    """Nor does it take the end of another wait, which opens the FIFO for a moment, for a writer."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "file").write_bytes(b"content")

    async def main():
        before = descriptors()
        first = asyncio.ensure_future(_opened(fifo))
        await asyncio.sleep(0.05)
        async with ayafileio.open(tmp_path / "file") as file:
            assert await file.read() == b"content"
            waiting = asyncio.ensure_future(_opened(fifo))
            await asyncio.sleep(0.02)
            first.cancel()
            await asyncio.sleep(0.2)
            assert not waiting.done()
            writer = await asyncio.get_running_loop().run_in_executor(None, os.open, fifo,
                                                                      os.O_WRONLY)
            reader = await asyncio.wait_for(waiting, 60)
            reading = asyncio.ensure_future(reader.read())
            await asyncio.sleep(0.02)
            assert not reading.done()
            os.write(writer, b"said late")
            os.close(writer)
            assert await asyncio.wait_for(reading, 60) == b"said late"
            await reader.close()
        assert descriptors() <= before + 5  # of the loop, its context and its executor

    run(main())


async def _opened(path):
    return await ayafileio.open(path)


def test_fifos_without_a_partner_stop_nothing(tmp_path):
    async def main():
        waiting = []
        for i in range(25):
            path = tmp_path / f"fifo{i}"
            os.mkfifo(path)
            file = ayafileio.open(path, "rb" if i % 2 else "wb")
            waiting.append(file.read(1) if i % 2 else file.write(b"x"))
        async with Heartbeat() as heart:
            async with ayafileio.open(tmp_path / "f", "w+b") as file:
                for i in range(20):
                    await asyncio.wait_for(file.write_at(i, b"y"), 60)
                    await asyncio.wait_for(file.fsync(), 60)
        assert heart.longest < 0.25
        for operation in waiting:
            operation.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)

    run(main())


def test_a_terminal():
    async def main():
        master, slave = pty.openpty()
        tty.setraw(slave)
        async with ayafileio.wrap_file(slave, "rb", owns_fd=True) as reader:
            async with ayafileio.wrap_file(master, "wb", owns_fd=True) as writer:
                assert reader.isatty()
                waiting = reader.read(3)
                await asyncio.sleep(0.02)
                assert not waiting.done()
                await writer.write(b"abc")
                await writer.flush()
                assert await waiting == b"abc"
                idle = reader.read(1)
                await asyncio.sleep(0.02)
                idle.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await idle

    run(main())


def test_a_terminal_by_name():
    async def main():
        master, slave = pty.openpty()
        tty.setraw(slave)
        async with ayafileio.open(os.ttyname(slave), "r+b", buffering=0) as file:
            os.write(master, b"in")
            assert await file.read(2) == b"in"
            assert await file.write(b"out") == 3
            assert os.read(master, 10) == b"out"
        os.close(master)
        os.close(slave)

    run(main())


def test_a_socket():
    async def main():
        left, right = socket.socketpair()
        async with ayafileio.wrap_file(left.fileno(), "rb") as reader:
            async with ayafileio.wrap_file(right.fileno(), "wb") as writer:
                waiting = reader.readline()
                await asyncio.sleep(0.01)
                await writer.write(b"hello\n")
                await writer.flush()
                assert await waiting == b"hello\n"
        left.close()
        right.close()

    run(main())


PROC = ["/proc/self/cmdline", "/proc/version", "/proc/self/mountinfo", "/proc/filesystems"]
PROC += ["/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"]


@pytest.mark.parametrize("path", PROC)
def test_files_whose_size_is_a_lie(path):
    try:
        with open(path, "rb") as plain:
            expected = plain.read()
    except OSError as error:
        pytest.skip(str(error))

    async def main():
        async with ayafileio.open(path) as file:
            got = await file.read()
        async with ayafileio.open(path) as file:
            lines = [line async for line in file]
        async with ayafileio.open(path) as file:
            small = await file.read(7)
        if path != "/proc/cpuinfo":  # shows the clock of the moment
            assert got == b"".join(lines) == expected
        assert len(got) > 0 and small == expected[:7]

    run(main())


def test_devices():
    async def main():
        async with ayafileio.open("/dev/zero") as file:
            assert await file.read(100_000) == b"\0" * 100_000
        async with ayafileio.open("/dev/null", "r+b") as file:
            assert await file.write(b"x" * 100_000) == 100_000
            assert await file.read() == b""
        async with ayafileio.open("/dev/urandom") as file:
            first, second = await file.read(5000), await file.read(5000)
            assert len(first) == len(second) == 5000 and first != second
        async with ayafileio.open("/dev/full", "wb", buffering=0) as file:
            with pytest.raises(OSError, match="No space left"):
                await file.write(b"x")

    run(main())


def test_what_a_pipe_cannot_do():
    async def main():
        out, into = os.pipe()
        with os.fdopen(into, "wb", buffering=0) as other:
            async with ayafileio.wrap_file(out, "rb", owns_fd=True) as file:
                assert not file.seekable() and file.readable() and not file.writable()
                for call in (file.seek(0), file.tell(), file.truncate(), file.truncate(0)):
                    with pytest.raises(OSError):
                        await call
                with pytest.raises(io.UnsupportedOperation):
                    await file.write(b"x")
                other.write(b"still works")
                assert await file.read(5) == b"still"

    run(main())


def test_a_broken_pipe():
    async def main():
        out, into = os.pipe()
        os.close(out)
        file = ayafileio.wrap_file(into, "wb", owns_fd=True)
        await file.write(b"x")
        with pytest.raises(BrokenPipeError):
            await file.flush()
        with pytest.raises(BrokenPipeError):
            await file.close()
        with pytest.raises(OSError):
            os.fstat(into)

    run(main())


def test_a_directory_is_no_file(tmp_path):
    async def main():
        with pytest.raises(IsADirectoryError):
            await ayafileio.open(tmp_path)
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            with pytest.raises(IsADirectoryError):
                await ayafileio.open(folder, closefd=False)
        finally:
            os.close(folder)

    run(main())


def test_special_files_leave_no_descriptor(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def use():
        reader, writer = await asyncio.gather(ayafileio.aopen(fifo), ayafileio.aopen(fifo, "wb"))
        await writer.write(b"x")
        await writer.close()
        assert await reader.read() == b"x"
        await reader.close()

    async def main():
        await use()
        before = descriptors()
        for _ in range(30):
            await use()
        assert descriptors() <= before

    run(main())
