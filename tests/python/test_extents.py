"""seek() to the next data or hole of a sparse file (os.SEEK_DATA, os.SEEK_HOLE) is that of the
built-in open(): where it lands, what it raises, and what is read and written afterwards."""

import os
import random
import tempfile

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.skipif(
    not hasattr(os, "SEEK_DATA"), reason="this system has no seek to the data of a file"
)

BLOCK = 1 << 16
EXTENTS = (os.SEEK_DATA, os.SEEK_HOLE)
MODES = ("rb", "r+b", "wb", "w+b", "ab", "a+b")


@pytest.fixture(params=["disk", "memory"])
def folder(request, tmp_path):
    """A folder on the tests' filesystem, and one on a filesystem in memory."""
    if request.param == "disk":
        yield tmp_path
    elif not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm here")
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
            yield type(tmp_path)(name)


def make_sparse(path):
    """Data in the second, third and sixth of eight blocks."""
    with open(path, "wb") as file:
        for index in (1, 2, 5):
            file.seek(index * BLOCK)
            file.write(bytes([65 + index]) * BLOCK)
        file.truncate(8 * BLOCK)


def program(rng):
    for _ in range(rng.randrange(3, 25)):
        step = rng.choice(("seek", "seek", "extent", "extent", "extent", "read", "write", "flush"))
        near = rng.randrange(9) * BLOCK + rng.choice((-3, 0, 0, 5, 5000))
        if step == "seek":
            yield "seek", rng.choice(((near,), (-40, 1), (9, 1), (-70_000, 2)))
        elif step == "extent":
            yield "seek", (near, rng.choice(EXTENTS))
        elif step == "read":
            yield "read", (rng.choice((1, 10, 9000, 70_000)),)
        elif step == "write":
            yield "write", (b"w" * rng.choice((1, 90, 9000, 70_000)),)
        else:
            yield "flush", ()


def outcome(error):
    return type(error), getattr(error, "errno", None)


async def compare(seed, folder, mode, buffering):
    rng = random.Random(f"{seed} {mode} {buffering}")
    theirs, ours = folder / "theirs", folder / "ours"
    make_sparse(theirs)
    make_sparse(ours)
    done = []
    with open(theirs, mode, buffering) as plain:
        async with ayafileio.open(ours, mode, buffering=buffering) as file:
            for name, given in program(rng):
                done.append((name, given if name != "write" else len(given[0])))
                try:
                    expected = getattr(plain, name)(*given)
                except (OSError, ValueError) as error:
                    expected = outcome(error)
                try:
                    got = await getattr(file, name)(*given)
                except (OSError, ValueError) as error:
                    got = outcome(error)
                assert got == expected, done
                assert await file.tell() == plain.tell(), done
                if given[1:] in ((os.SEEK_DATA,), (os.SEEK_HOLE,)) and isinstance(got, int):
                    fds = file.fileno(), plain.fileno()
                    assert os.lseek(fds[0], 0, 1) == os.lseek(fds[1], 0, 1), done
    assert ours.read_bytes() == theirs.read_bytes(), done


@pytest.mark.parametrize("buffering", [-1, 0, 100])
@pytest.mark.parametrize("mode", MODES)
def test_each_call_equals_the_built_in(folder, mode, buffering):
    async def main():
        for seed in range(12):
            await compare(seed, folder, mode, buffering)

    run(main())


def test_it_runs_on_every_backend(backend, tmp_path):
    make_sparse(tmp_path / "sparse")

    async def main():
        async with ayafileio.open(tmp_path / "sparse") as file:
            found = [0]
            for whence in EXTENTS * 2:
                found.append(await file.seek(found[-1], whence))
            return found, await file.read(3)

    assert run(main()) == ([0, BLOCK, 3 * BLOCK, 5 * BLOCK, 6 * BLOCK], bytes(3))


def refused(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.type, caught.value


@pytest.mark.parametrize("mode", ["rb", "r+b", "a+b", "r"])
@pytest.mark.parametrize("given", [(10, 3), (-1, 3), (0, 7), (0, -1), (1 << 70, 3), (0, 1 << 40)])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_what_is_refused_is_refused_alike(digits, mode, given, buffering):
    if mode == "r" and buffering == 0:
        pytest.skip("a text file is buffered")

    async def main():
        with open(digits, mode, buffering) as plain:
            kind, theirs = refused(lambda: plain.seek(*given))
            position = plain.tell()
        async with ayafileio.open(digits, mode, buffering=buffering) as file:
            with pytest.raises(kind) as caught:
                await file.seek(*given)
            assert await file.tell() == position
        if isinstance(theirs, OSError):
            assert caught.value.errno == theirs.errno
        elif kind is ValueError and given[0] < 1 << 64:
            assert str(caught.value) == str(theirs)

    run(main())


def test_a_pipe_has_no_data_to_seek():
    async def main():
        reading, writing = os.pipe()
        os.close(writing)
        async with ayafileio.open(reading, "rb") as file:
            with pytest.raises(OSError, match="not seekable"):
                await file.seek(0, os.SEEK_DATA)

    run(main())
