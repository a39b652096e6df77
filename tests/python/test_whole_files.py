"""Whole-file helpers and copies: results as open() gives them, few descriptors, no error lost."""

import asyncio
import errno
import os
import shutil
import stat
import tempfile
import threading

import pytest

import ayafileio


def run(coroutine, limit=60):
    async def main():
        return await asyncio.wait_for(coroutine, limit)

    return asyncio.run(main())


def test_bytes_there_and_back(tmp_path):
    data = os.urandom(300_001)

    async def main():
        assert await ayafileio.write_bytes(tmp_path / "a", data) == len(data)
        assert await ayafileio.write_bytes(str(tmp_path / "b"), bytearray(data)) == len(data)
        assert await ayafileio.write_bytes(os.fsencode(tmp_path / "c"), memoryview(b"xyz")) == 3
        return await ayafileio.read_bytes(tmp_path / "b")

    assert run(main()) == data
    assert (tmp_path / "a").read_bytes() == data
    assert (tmp_path / "c").read_bytes() == b"xyz"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1", None])
@pytest.mark.parametrize("newline", [None, "", "\r\n"])
def test_text_is_as_with_open(tmp_path, encoding, newline):
    text = "one\ntwo\r\nthree\rfour ä\n"
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"

    async def main():
        count = await ayafileio.write_text(mine, text, encoding, newline=newline)
        return count, await ayafileio.read_text(mine, encoding, newline=newline)

    with open(theirs, "w", encoding=encoding, newline=newline) as f:
        count = f.write(text)
    with open(theirs, encoding=encoding, newline=newline) as f:
        content = f.read()
    assert run(main()) == (count, content)
    assert mine.read_bytes() == theirs.read_bytes()


def test_wrong_data_does_not_empty_the_file(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b"kept")

    async def main():
        with pytest.raises(TypeError):
            await ayafileio.write_bytes(path, "text")
        with pytest.raises(TypeError):
            await ayafileio.write_text(path, b"bytes")

    run(main())
    assert path.read_bytes() == b"kept"


def test_files_that_tell_no_size():
    with open("/proc/self/mounts", "rb") as f:
        wanted = f.read()
    assert run(ayafileio.read_bytes("/proc/self/mounts")) == wanted


def test_many_keep_their_order(tmp_path):
    paths = [tmp_path / str(n) for n in range(500)]

    async def main():
        contents = [bytes([n % 256]) * n for n in range(500)]
        counts = await ayafileio.write_bytes_many(zip(paths, contents))
        assert counts == list(range(500))
        assert await ayafileio.read_bytes_many(iter(paths), max_concurrency=3) == contents
        texts = [f"ä{n}" for n in range(500)]
        pairs = list(zip(paths, texts))
        counts = await ayafileio.write_text_many(pairs, "utf-8", max_concurrency=7)
        assert counts == [len(text) for text in texts]
        assert await ayafileio.read_text_many(paths, "utf-8") == texts
        assert await ayafileio.read_bytes_many([]) == []

    run(main())


def test_no_more_descriptors_than_max_concurrency(tmp_path):
    """An open of a FIFO waits for a partner: all that may be open at once are."""
    paths = [tmp_path / str(n) for n in range(12)]
    for path in paths:
        os.mkfifo(path)

    async def feed():
        most = 0
        left = list(paths)
        while left:
            await asyncio.sleep(0.02)
            ready = []
            for path in left:
                try:
                    # Succeeds only where a reader has opened, or is opening, the other end.
                    ready.append((path, os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
                except OSError:
                    pass
            most = max(most, len(ready))
            for path, fd in ready:
                os.write(fd, b"x")
                os.close(fd)
                left.remove(path)
        return most

    async def main():
        reads = asyncio.create_task(ayafileio.read_bytes_many(paths, max_concurrency=4))
        most = await feed()
        assert await reads == [b"x"] * 12
        return most

    assert 1 <= run(main()) <= 4


@pytest.mark.parametrize("most", [0, -1])
def test_max_concurrency_must_be_positive(most):
    async def main():
        with pytest.raises(ValueError, match=str(most)):
            await ayafileio.read_bytes_many(["x"], max_concurrency=most)

    run(main())


def test_first_error_is_raised_and_the_others_are_reported(tmp_path):
    (tmp_path / "good").write_bytes(b"x")
    paths = [tmp_path / "good", tmp_path / "missing", tmp_path]
    reported = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        with pytest.raises(OSError) as info:
            await ayafileio.read_bytes_many(paths)
        return info.value

    first = run(main())
    kinds = {type(error) for error in [first, *reported]}
    assert kinds <= {FileNotFoundError, IsADirectoryError}
    assert first not in reported


def test_error_of_the_callers_iterator_is_raised(tmp_path):
    (tmp_path / "good").write_bytes(b"x")

    def paths():
        yield tmp_path / "good"
        raise LookupError("no more names")

    async def main(most):
        with pytest.raises(LookupError, match="no more names"):
            await ayafileio.read_bytes_many(paths(), max_concurrency=most)

    run(main(1))
    run(main(8))


def test_cancel_ends_what_was_begun(tmp_path):
    paths = [tmp_path / str(n) for n in range(6)]
    for path in paths:
        os.mkfifo(path)

    async def main():
        before = asyncio.all_tasks()
        task = asyncio.create_task(ayafileio.read_bytes_many(paths, max_concurrency=3))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - before

    assert run(main()) == set()


# -- acopy --------------------------------------------------------------------------------------


@pytest.fixture(params=["one filesystem", "two filesystems"])
def elsewhere(request, tmp_path):
    """Where a copy goes to: the system copies by itself only within one filesystem."""
    if request.param == "one filesystem":
        yield tmp_path
    elif not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second filesystem at /dev/shm here")
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
            yield type(tmp_path)(name)


@pytest.mark.parametrize("size", [0, 1, 4095, 65536, 65537, 1_000_003])
@pytest.mark.parametrize("chunk_size, concurrency", [(4 << 20, 8), (4096, 3), (65536, 1)])
def test_copies_of_many_sizes(tmp_path, elsewhere, size, chunk_size, concurrency):
    source, target = tmp_path / "source", elsewhere / "target"
    source.write_bytes(os.urandom(size))
    target.write_bytes(b"old" * 1_000_000)
    copied = run(ayafileio.acopy(source, target, chunk_size=chunk_size, concurrency=concurrency))
    assert copied == size
    assert target.read_bytes() == source.read_bytes()


def test_copy_of_what_tells_no_size(tmp_path):
    target = tmp_path / "target"
    with open("/proc/version", "rb") as f:
        wanted = f.read()
    assert run(ayafileio.acopy("/proc/version", target)) == len(wanted)
    assert target.read_bytes() == wanted
    assert run(ayafileio.acopy("/dev/null", target)) == 0
    assert target.read_bytes() == b""


def test_copy_into_a_device(tmp_path):
    (tmp_path / "source").write_bytes(b"x" * 100)
    assert run(ayafileio.acopy(tmp_path / "source", "/dev/null")) == 100


def test_copy_onto_itself_is_refused(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"data")
    os.symlink(source, tmp_path / "link")
    os.link(source, tmp_path / "hard")

    async def main():
        for name in ("source", "link", "hard"):
            with pytest.raises(shutil.SameFileError):
                await ayafileio.acopy(source, tmp_path / name)

    run(main())
    assert source.read_bytes() == b"data"


def test_copy_refuses_what_is_no_file(tmp_path):
    source, target, fifo = tmp_path / "source", tmp_path / "target", tmp_path / "fifo"
    source.write_bytes(b"data")
    target.write_bytes(b"kept")
    os.mkfifo(fifo)

    async def main():
        with pytest.raises(FileNotFoundError) as info:
            await ayafileio.acopy(tmp_path / "missing", target)
        assert os.fspath(info.value.filename) == str(tmp_path / "missing")
        with pytest.raises(FileNotFoundError):
            await ayafileio.acopy(source, tmp_path / "no folder" / "target")
        with pytest.raises(IsADirectoryError):
            await ayafileio.acopy(tmp_path, target)
        with pytest.raises(IsADirectoryError):
            await ayafileio.acopy(source, tmp_path)
        with pytest.raises(shutil.SpecialFileError):
            await ayafileio.acopy(fifo, target)
        with pytest.raises(shutil.SpecialFileError):
            await ayafileio.acopy(source, fifo)
        for wrong in ({"chunk_size": 0}, {"concurrency": 0}):
            with pytest.raises(ValueError):
                await ayafileio.acopy(source, target, **wrong)

    run(main())
    assert target.read_bytes() == b"kept"


def attributes(path):
    names = os.listxattr(path) if hasattr(os, "listxattr") else []
    return {name: os.getxattr(path, name) for name in names if name.startswith("user.")}


def test_copy_stat(tmp_path, elsewhere):
    source, plain, full = tmp_path / "source", elsewhere / "plain", elsewhere / "full"
    theirs = elsewhere / "theirs"
    source.write_bytes(b"data")
    os.chmod(source, 0o751)
    if hasattr(os, "setxattr"):
        try:
            os.setxattr(source, "user.empty", b"")
            os.setxattr(source, "user.note", b"kept" * 50)
        except OSError:
            pass  # a filesystem without them
    os.utime(source, (1_000_000_000, 1_000_000_001))
    mask = os.umask(0o022)
    try:
        run(ayafileio.acopy(source, plain))
        run(ayafileio.acopy(source, full, copy_stat=True))
    finally:
        os.umask(mask)
    assert stat.S_IMODE(plain.stat().st_mode) == 0o644
    assert stat.S_IMODE(full.stat().st_mode) == 0o751
    assert full.stat().st_mtime == 1_000_000_001
    shutil.copy2(source, theirs)
    assert full.stat().st_mtime_ns == theirs.stat().st_mtime_ns
    assert full.stat().st_mode == theirs.stat().st_mode
    assert attributes(full) == attributes(theirs)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_copy_raises_the_error_of_a_write(tmp_path):
    (tmp_path / "source").write_bytes(b"x" * 200_000)

    async def main():
        for chunk_size in (4 << 20, 4096):
            with pytest.raises(OSError, match="space"):
                await ayafileio.acopy(tmp_path / "source", "/dev/full", chunk_size=chunk_size)

    run(main())


def test_a_cancelled_copy_ends_early(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    size = 1 << 30
    with open(source, "wb") as file:
        file.truncate(size)

    async def main():
        task = asyncio.create_task(ayafileio.acopy(source, target))
        while not (target.exists() and target.stat().st_size):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended = target.stat().st_size
        await asyncio.sleep(0.1)
        assert target.stat().st_size == ended < size

    before = len(os.listdir("/proc/self/fd"))
    run(main())
    target.unlink()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_copy_starts_no_thread_of_python(tmp_path):
    (tmp_path / "source").write_bytes(b"x" * 10_000_000)

    async def main():
        await ayafileio.acopy(tmp_path / "source", tmp_path / "target", copy_stat=True)
        return threading.active_count()

    assert run(main()) == threading.active_count()
