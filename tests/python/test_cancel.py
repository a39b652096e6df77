"""What a cancel ends, what it leaves alone, and that no byte is lost by it."""

import asyncio
import os
import random

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")


class Pipe:
    """async with: a pipe; one end is an AsyncFile of this mode, the other a plain file."""

    def __init__(self, mode="rb", capacity=None):
        self.mode = mode
        out, into = os.pipe()
        if capacity:
            fcntl = pytest.importorskip("fcntl")
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, capacity)
        own, other = (out, into) if mode == "rb" else (into, out)
        self.file = ayafileio.wrap_file(own, mode, owns_fd=True)
        self.other = os.fdopen(other, "wb" if mode == "rb" else "rb", buffering=0)

    async def __aenter__(self):
        return self.file, self.other

    async def __aexit__(self, *_):
        self.other.close()
        try:
            await self.file.close()
        except BrokenPipeError:
            pass


async def cancelled(operation):
    assert operation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await operation


def test_a_cancelled_read_takes_no_bytes_along():
    async def main():
        async with Pipe() as (file, other):
            for read in (file.read, file.readline, file.readall):
                await cancelled(read())
            reading = file.read(10)
            other.write(b"01234")
            await asyncio.sleep(0.02)
            await cancelled(reading)
            other.write(b"56789")
            assert await file.read(10) == b"0123456789"

    run(main())


def test_a_line_that_was_read_in_part_stays():
    async def main():
        async with Pipe() as (file, other):
            for piece in (b"first ", b"and ", b"last"):
                line = file.readline()
                other.write(piece)
                await asyncio.sleep(0.01)
                await cancelled(line)
            other.write(b"\nnext\n")
            assert await file.readline() == b"first and last\n"
            assert await file.readline() == b"next\n"

    run(main())


def test_a_result_that_was_thrown_away_goes_to_the_next_read():
    async def main():
        async with Pipe() as (file, other):

            async def reader():
                return await file.read(3)

            task = asyncio.create_task(reader())
            await asyncio.sleep(0.01)
            other.write(b"abcdef")
            # The pipe is readable, the task has not run yet: cancelled before it sees them.
            for _ in range(3):
                await asyncio.sleep(0)
                if task.cancel():
                    break
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await file.read(6) == b"abcdef"

    run(main())


def test_many_reads_cancelled_at_random_lose_nothing(tmp_path):
    rng = random.Random(4)
    data = rng.randbytes(1 << 20)
    path = tmp_path / "data"
    path.write_bytes(data)

    async def main():
        got = bytearray()
        async with ayafileio.open(path) as file:
            while len(got) < len(data):
                operation = file.read(rng.choice([1, 100, 5000, 100_000]))
                if rng.random() < 0.5:
                    await asyncio.sleep(0)
                if rng.random() < 0.5 and operation.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await operation
                else:
                    got += await operation
        assert got == data

    run(main(), 60)


def test_once_cancel_returned_true_it_ends_cancelled(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100_000)

    async def main():
        async with ayafileio.open(path, "r+b") as file:
            makers = [
                lambda: file.read_at(0, 50_000),
                lambda: file.write_at(0, b"y" * 50_000),
                lambda: file.readinto_at(0, bytearray(50_000)),
                lambda: file.read_many([(0, 100)] * 50),
                lambda: file.write_many([(0, b"z")] * 50),
                file.fsync,
                lambda: file.write(b"w"),
                file.flush,
                lambda: file.read(10),
            ]
            for turns in (0, 1, 2, 5):
                for make in makers:
                    operation = make()
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    if operation.cancel():
                        with pytest.raises(asyncio.CancelledError):
                            await operation
                        assert operation.cancelled()
                    else:
                        assert operation.done()
                        await operation

    run(main())


def test_memory_of_the_caller_is_his_again_when_the_cancel_arrives(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"\xee" * (1 << 20))

    async def main():
        async with ayafileio.open(path, "r+b") as file:
            for _ in range(50):
                buffer = bytearray(1 << 20)
                reading = file.readinto_at(0, buffer)
                await asyncio.sleep(0)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                del reading
                buffer[:] = b"\x11" * len(buffer)
                buffer.append(1)
                await asyncio.sleep(0.001)
                assert buffer.count(0x11) == 1 << 20

    run(main(), 60)


def test_a_cancelled_positioned_write_leaves_old_or_new_bytes(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"old" * 1000)

    async def main():
        async with ayafileio.open(path, "r+b") as file:
            buffer = bytearray(b"new" * 1000)
            for _ in range(100):
                writing = file.write_at(0, buffer)
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
                del writing
                buffer[:] = b"bad" * 1000
                buffer[:] = b"new" * 1000
                content = await file.read_at(0)
                assert set(content[i : i + 3] for i in range(0, 3000, 3)) <= {b"old", b"new"}

    run(main())


def test_a_stream_write_belongs_to_the_stream(tmp_path):
    path = tmp_path / "data"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            for i in range(50):
                writing = file.write(b"%05d" % i * 10_000)
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    run(main())
    assert path.read_bytes() == b"".join(b"%05d" % i * 10_000 for i in range(50))


def test_a_cancelled_write_to_a_full_pipe_goes_on():
    async def main():
        async with Pipe("wb", 4096) as (file, other):
            data = random.Random(2).randbytes(40_000)
            writing = file.write(data)
            flushing = file.flush()
            await asyncio.sleep(0.02)
            for operation in (writing, flushing):
                operation.cancel()
                await asyncio.gather(operation, return_exceptions=True)
            got = bytearray()
            while len(got) < len(data):
                got += await asyncio.get_running_loop().run_in_executor(None, other.read, 4096)
            assert got == data

    run(main())


def test_a_mutable_buffer_of_a_cancelled_write_may_change(tmp_path):
    path = tmp_path / "data"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            for _ in range(30):
                buffer = bytearray(b"a" * 300_000)
                writing = file.write(buffer)
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
                buffer[:] = b"b" * 300_000

    run(main())
    assert path.read_bytes() == b"a" * 300_000 * 30


def test_fsync_and_truncate_are_shielded(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"x" * 100)

    async def main():
        async with ayafileio.open(path, "r+b") as file:
            for operation in (file.truncate(10), file.fsync()):
                operation.cancel()
                await asyncio.gather(operation, return_exceptions=True)
            await file.flush()
            assert path.stat().st_size == 10

    run(main())


def test_a_shielded_error_comes_with_the_next_flush_or_close():
    async def main():
        async with Pipe("wb") as (file, _):
            syncing = file.fsync()
            if not syncing.cancel():
                pytest.skip("fsync of a pipe failed at once")
            await asyncio.gather(syncing, return_exceptions=True)
            await asyncio.sleep(0.1)
            with pytest.raises(OSError):
                await file.flush()
            await file.flush()

    run(main())


def test_cancelled_while_queued_behind_another(tmp_path):
    async def main():
        async with Pipe() as (file, other):
            first, second, third = file.read(2), file.read(2), file.read(2)
            await asyncio.sleep(0)
            await cancelled(second)
            other.write(b"abcd")
            assert await first == b"ab"
            assert await third == b"cd"

    run(main())


def test_a_cancelled_open_leaves_no_descriptor(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def main():
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(ayafileio.aopen(fifo, "rb"), 0.01)
        for _ in range(200):
            if len(os.listdir("/proc/self/fd")) <= before:
                break
            await asyncio.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) <= before

    async def warmed():
        async with ayafileio.open(__file__):
            await main()

    run(warmed())


def test_a_task_that_is_cancelled_in_its_block_closes_its_file(digits):
    async def main():
        kept = []

        async def user():
            async with ayafileio.open(digits) as file:
                kept.append(file)
                while True:
                    await file.read(1)
                    await asyncio.sleep(0)

        for turns in range(12):
            task = asyncio.create_task(user())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert all(file.closed for file in kept)

    run(main())
