"""Operations on two files: copy_range() and copy_stat(). What the other file has buffered is with
the system before they begin, and what it has read ahead is forgotten."""

import asyncio
import errno
import os

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"abcdefghij")
    return path


def test_the_range_is_copied(digits, other):
    async def main():
        async with ayafileio.open(digits) as source, ayafileio.open(other, "r+b") as target:
            assert await source.copy_range(2, target, 4, 3) == 3
            assert await source.copy_range(8, target, 8) == 2
            assert await source.copy_range(offset=10, target=target, target_offset=0) == 0
            assert await source.tell() == await target.tell() == 0

    run(main())
    assert other.read_bytes() == b"abcd234h89"


def test_what_both_have_buffered_is_written_first(digits, other):
    async def main():
        async with ayafileio.open(digits, "r+b") as source, ayafileio.open(other, "r+b") as target:
            await source.write(b"XYZ")
            await target.write(b"12345")
            # Not awaited: the writes queue before it.
            pending = [target.write(b"6"), source.copy_range(0, target, 3)]
            assert await asyncio.gather(*pending) == [1, 10]
            assert await target.tell() == 6
            assert await target.read() == b"3456789"

    run(main())
    assert other.read_bytes() == b"123XYZ3456789"


def test_what_was_read_ahead_is_read_again(digits, other):
    async def main():
        async with ayafileio.open(digits) as source, ayafileio.open(other, "r+b") as target:
            assert await target.read(2) == b"ab"
            await source.copy_range(0, target, 0)
            assert await target.tell() == 2
            assert await target.read() == b"23456789"

    run(main())


def test_a_shared_buffer_is_settled(digits, other):
    async def main():
        async with ayafileio.open(digits, "a+b") as source, ayafileio.open(other, "r+b") as target:
            await source.write(b"end")
            assert await source.copy_range(8, target, 0) == 5
            await source.seek(0)
            assert await source.read(3) == b"012"
            assert await target.read() == b"89endfghij"

    run(main())


def test_the_descriptor_stands_where_the_stream_does(digits, other):
    async def main():
        async with ayafileio.open(digits) as source, ayafileio.open(other, "r+b") as target:
            await target.read(3)
            await source.copy_stat(target)
            assert os.lseek(target.fileno(), 0, os.SEEK_CUR) == 3
            assert await target.read(2) == b"de"

    run(main())


def test_one_file_is_both(digits):
    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            await file.seek(0, 2)
            await file.write(b"abc")
            assert await file.copy_range(10, file, 0) == 3
            with pytest.raises(OSError) as caught:
                await file.copy_range(0, file, 2, 5)
            assert caught.value.errno == errno.EINVAL  # they overlap
            await file.truncate(20 << 20)
            with pytest.raises(OSError) as caught:
                await file.copy_range(0, file, 10 << 20, 11 << 20)  # not in the first piece
            assert caught.value.errno == errno.EINVAL
            await file.truncate(13)
        assert digits.read_bytes() == b"abc3456789abc"

    run(main())


def test_a_failed_write_of_the_other_file_is_raised(digits):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")

    async def main():
        async with ayafileio.open(digits) as source:
            target = await ayafileio.open("/dev/full", "r+b")
            await target.write(b"x")
            with pytest.raises(OSError) as caught:
                await source.copy_stat(target)
            assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")
            with pytest.raises(OSError):
                await target.close()

    run(main())


def test_errors_name_both_files(digits, other):
    async def main():
        async with ayafileio.open(digits) as source, ayafileio.open(other) as target:
            with pytest.raises(OSError) as caught:
                await source.copy_range(0, target, 0)
            assert caught.value.errno == errno.EBADF
            names = caught.value.filename, caught.value.filename2
            assert names == (str(digits), str(other))
        with pytest.raises(TypeError, match="target must be an AsyncFile"):
            await source.copy_range(0, 7, 0)

    run(main())


def test_a_closed_file_is_refused(digits, other):
    async def main():
        async with ayafileio.open(digits) as source:
            async with ayafileio.open(other, "r+b") as target:
                pass
            with pytest.raises(ValueError, match="closed file"):
                await source.copy_range(0, target, 0)

    run(main())


def test_close_of_the_other_file_waits_for_the_copy(tmp_path):
    with open(tmp_path / "large", "wb") as file:
        file.truncate(64 << 20)

    async def main():
        async with ayafileio.open(tmp_path / "large") as source:
            target = await ayafileio.open(tmp_path / "target", "wb")
            copied = source.copy_range(0, target, 0)
            await target.close()
            assert copied.done() and await copied == 64 << 20

    run(main())


def test_what_tells_no_length_is_copied(tmp_path):
    if not os.path.exists("/proc/version"):
        pytest.skip("there is no /proc")

    async def main():
        async with ayafileio.open("/proc/version") as source:
            async with ayafileio.open(tmp_path / "target", "wb") as target:
                return await source.copy_range(0, target, 0)

    with open("/proc/version", "rb") as file:
        wanted = file.read()
    assert run(main()) == len(wanted)
    assert (tmp_path / "target").read_bytes() == wanted


def test_a_path_is_looked_at(digits, tmp_path):
    (tmp_path / "link").symlink_to(digits)

    async def main():
        for path, follow in ((digits, True), (tmp_path / "link", True), (tmp_path / "link", False)):
            assert await ayafileio.stat_path(path, follow) == os.stat(path, follow_symlinks=follow)
        with pytest.raises(FileNotFoundError) as caught:
            await ayafileio.stat_path(tmp_path / "none")
        assert caught.value.filename == tmp_path / "none"

    run(main())
