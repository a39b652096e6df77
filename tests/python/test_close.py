"""close(): waits, flushes, reports, and gives the descriptor back in any case."""

import asyncio
import errno
import gc
import os
import signal
import warnings

import pytest

import ayafileio
from support import descriptors, program, run

pytestmark = pytest.mark.usefixtures("backend")


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_close_writes_the_buffer_out_and_may_be_repeated(tmp_path):
    path = tmp_path / "f"

    async def main():
        file = await ayafileio.open(path, "wb")
        descriptor = file.fileno()
        await file.write(b"kept")
        assert not file.closed
        assert await file.close() is None
        assert file.closed and not is_open(descriptor)
        assert await file.close() is None
        assert path.read_bytes() == b"kept"

    run(main())


def test_everything_is_refused_after_close(digits):
    async def main():
        file = await ayafileio.open(digits, "r+b")
        await file.close()
        calls = [
            file.read, file.readline, file.readlines, file.readall, file.flush, file.tell,
            file.fsync, file.fdatasync, file.stat, file.truncate, lambda: file.seek(0),
            lambda: file.write(b"x"), lambda: file.writelines([b"x"]), lambda: file.peek(1),
            lambda: file.read1(1), lambda: file.readinto(bytearray(1)), lambda: file.read_at(0, 1),
            lambda: file.write_at(0, b"x"), lambda: file.readinto_at(0, bytearray(1)),
            lambda: file.read_many([(0, 1)]), lambda: file.write_many([(0, b"x")]),
            lambda: file.allocate(0, 1), lambda: file.advise(), file.__anext__,
        ]  # fmt: skip
        for call in calls:
            operation = call()
            with pytest.raises(ValueError, match="closed"):
                await operation
        for plain in (file.fileno, file.isatty, file.readable, file.writable, file.seekable):
            with pytest.raises(ValueError):
                plain()
        with pytest.raises(ValueError):
            async with file:
                pass
        assert file.closed and file.mode == "r+b" and file.name == str(digits)

    run(main())
    assert digits.read_bytes() == b"0123456789"


def test_close_waits_for_what_was_started(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"0" * 100_000)

    async def main():
        file = await ayafileio.open(path, "r+b")
        reads = [file.read_at(i, 1000) for i in range(0, 50_000, 1000)]
        writes = [file.write_at(50_000 + i, b"1" * 1000) for i in range(0, 50_000, 1000)]
        streamed = [file.write(b"2" * 100) for _ in range(10)]
        await file.close()
        assert await asyncio.gather(*reads) == [b"0" * 1000] * 50
        assert await asyncio.gather(*writes) == [1000] * 50
        assert await asyncio.gather(*streamed) == [100] * 10

    run(main())
    assert path.read_bytes() == b"2" * 1000 + b"0" * 49_000 + b"1" * 50_000


def test_close_ends_reads_that_wait_for_bytes_to_come():
    async def main():
        out, into = os.pipe()
        with os.fdopen(into, "wb"):
            file = ayafileio.wrap_file(out, "rb", owns_fd=True)
            reading = file.read(1)
            await asyncio.sleep(0.02)
            loop = asyncio.get_running_loop()
            begin = loop.time()
            await file.close()
            assert loop.time() - begin < 3
            assert not is_open(out)
            (ended,) = await asyncio.gather(reading, return_exceptions=True)
            assert isinstance(ended, (ValueError, OSError, asyncio.CancelledError))

    run(main())


def test_a_write_that_nobody_reads_ends_in_a_timeout():
    async def main():
        ayafileio.configure({"close_timeout_ms": 200})
        out, into = os.pipe()
        with os.fdopen(out, "rb"):
            file = ayafileio.wrap_file(into, "wb", owns_fd=True)
            writing = file.write(b"x" * 1_000_000)
            loop = asyncio.get_running_loop()
            begin = loop.time()
            with pytest.raises(TimeoutError, match="write"):
                await file.close()
            assert 0.15 < loop.time() - begin < 5
            assert file.closed
            await asyncio.gather(writing, return_exceptions=True)
            for _ in range(100):
                if not is_open(into):
                    break
                await asyncio.sleep(0.01)
            assert not is_open(into)

    run(main())


def test_a_failed_write_is_reported_until_close_gives_the_descriptor_back():
    async def main():
        file = await ayafileio.open("/dev/full", "wb")
        descriptor = file.fileno()
        assert await file.write(b"x" * 10) == 10
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                await file.flush()
            assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError) as caught:
            await file.close()
        assert caught.value.errno == errno.ENOSPC
        assert file.closed and not is_open(descriptor)
        await file.close()

    run(main())


def test_a_failed_write_behind_the_caller_is_seen_by_close(tmp_path):
    path = tmp_path / "f"
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def main():
        file = await ayafileio.open(path, "wb")
        descriptor = file.fileno()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            await file.write(b"x" * 5000)
            with pytest.raises(OSError) as caught:
                await file.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert caught.value.errno == errno.EFBIG
        assert file.closed and not is_open(descriptor)

    run(main())
    assert path.read_bytes() == b"x" * 4096


def test_the_block_reports_the_error_of_its_close():
    async def main():
        with pytest.raises(OSError) as caught:
            async with ayafileio.open("/dev/full", "wb") as file:
                await file.write(b"x")
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError) as caught:
            async with ayafileio.open("/dev/full", "wb") as file:
                await file.write(b"x")
                raise KeyError("inner")
        assert isinstance(caught.value.__context__, KeyError)

    run(main())


def test_a_failed_open_fails_all_and_closes_silently(tmp_path):
    async def main():
        file = ayafileio.open(tmp_path / "missing")
        first, second = file.read(), file.read_at(0, 1)
        for operation in (first, second, file.stat(), file.tell()):
            with pytest.raises(FileNotFoundError):
                await operation
        await file.close()
        assert file.closed

    run(main())


def test_a_dropped_file_warns_writes_and_closes(tmp_path):
    path = tmp_path / "f"

    async def main():
        await asyncio.sleep(0.01)
        for _ in range(3):
            path.unlink(missing_ok=True)
            before = descriptors()
            file = await ayafileio.open(path, "wb")
            await file.write(b"kept")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                del file
                await asyncio.sleep(0)
                gc.collect()
            assert [one.category for one in caught] == [ResourceWarning]
            assert str(path) in str(caught[0].message)
            for _ in range(200):
                if descriptors() <= before and path.read_bytes() == b"kept":
                    break
                await asyncio.sleep(0.01)
            assert path.read_bytes() == b"kept"
            assert descriptors() <= before

    async def warmed():
        async with ayafileio.open(__file__):
            await main()

    run(warmed())


def test_a_closed_file_does_not_warn(digits):
    async def main():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            file = await ayafileio.open(digits)
            await file.close()
            del file
            async with ayafileio.open(digits) as file:
                pass
            del file
            gc.collect()

    run(main())


def test_auto_flush_makes_leaving_the_block_durable(tmp_path, backend):
    out = program(
        tmp_path,
        backend,
        """
        async def main():
            async with ayafileio.open("kept", "wb", auto_flush=True) as file:
                await file.write(b"x")
            print(open("kept", "rb").read())
        asyncio.run(main())
        """,
    )
    assert out == "b'x'\n"


def test_descriptors_that_are_not_owned_stay_open(digits):
    descriptor = os.open(digits, os.O_RDWR)

    async def main():
        async with ayafileio.open(descriptor, "r+b", closefd=False) as file:
            assert await file.read(3) == b"012"
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 3
        async with ayafileio.wrap_file(descriptor, "r+b") as file:
            assert await file.read(2) == b"34"
            await file.write(b"X")
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 6

    try:
        run(main())
        assert os.pread(descriptor, 10, 0) == b"01234X6789"
    finally:
        os.close(descriptor)


def test_many_files_at_once(tmp_path):
    async def one(number):
        path = tmp_path / str(number)
        async with ayafileio.open(path, "w+b") as file:
            await file.write(b"%d" % number)
            await file.seek(0)
            return await file.read()

    async def main():
        before = descriptors()
        got = await asyncio.gather(*[one(number) for number in range(300)])
        assert got == [b"%d" % number for number in range(300)]
        return before, descriptors()

    async def warmed():
        await one(1000)
        return await main()

    before, after = run(warmed())
    assert after <= before + 1
