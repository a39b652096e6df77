"""Names, descriptors and openers, against the built-in open()."""

import asyncio
import os
import pathlib
import stat
import sys

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")


class Like:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


def as_str(path):
    return str(path)


def as_bytes(path):
    return os.fsencode(path)


def as_path(path):
    return pathlib.Path(path)


def like_str(path):
    return Like(str(path))


def like_bytes(path):
    return Like(os.fsencode(path))


@pytest.mark.parametrize("make", [as_str, as_bytes, as_path, like_str, like_bytes])
@pytest.mark.parametrize("name", ["plain", "with space", "ünï-日本", "\udcff\udc80", "n" * 255])
def test_names_of_every_kind(make, name, tmp_path):
    path = make(os.path.join(tmp_path, name))

    async def main():
        async with ayafileio.open(path, "wb") as file:
            await file.write(b"x")
            with open(path, "rb") as plain:
                assert file.name == plain.name and type(file.name) is type(plain.name)
        async with ayafileio.open(path) as file:
            assert await file.read() == b"x"

    run(main())
    assert os.listdir(os.fsencode(tmp_path)) == [os.fsencode(name)]


@pytest.mark.parametrize("path", ["a\0b", b"a\0b", 1.5, None, ["x"], Like(5), -1])
def test_what_is_no_path_is_refused_by_the_call(path):
    with pytest.raises((TypeError, ValueError, OSError)) as expected:
        open(path)

    async def main():
        with pytest.raises(expected.type) as caught:
            file = ayafileio.open(path)
            assert isinstance(expected.value, OSError), "ValueError and TypeError come at the call"
            await file
        if isinstance(expected.value, ValueError):
            assert str(caught.value) == str(expected.value)

    run(main())


FAULTS = [
    ("missing", "rb"),
    ("missing/below", "wb"),
    ("digits/below", "rb"),
    ("folder", "rb"),
    ("folder", "wb"),
    ("folder", "r+b"),
    ("folder", "ab"),
    ("loop", "rb"),
    ("n" * 300, "wb"),
    ("", "rb"),
]


@pytest.mark.parametrize("name, mode", FAULTS)
def test_system_errors_equal_the_built_in(name, mode, tmp_path, digits):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    path = os.path.join(tmp_path, name) if name else ""
    with pytest.raises(OSError) as expected:
        open(path, mode)

    async def main():
        file = ayafileio.open(path, mode)
        with pytest.raises(OSError) as caught:
            await file
        with pytest.raises(type(expected.value)):
            async with ayafileio.open(path, mode):
                pass
        assert type(caught.value) is type(expected.value)
        assert caught.value.errno == expected.value.errno
        assert caught.value.filename == path
        assert str(caught.value) == str(expected.value)

    run(main())


def test_permissions_and_umask(tmp_path):
    before = os.umask(0o027)

    async def main():
        async with ayafileio.open(tmp_path / "made", "wb"):
            pass

    try:
        run(main())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640


def test_descriptors_are_not_inherited(digits):
    fcntl = pytest.importorskip("fcntl")

    async def main():
        for mode in ("rb", "r+b", "ab", "wb"):
            async with ayafileio.open(digits, mode) as file:
                assert fcntl.fcntl(file.fileno(), fcntl.F_GETFD) & fcntl.FD_CLOEXEC

    run(main())


def test_an_open_descriptor(digits):
    async def main():
        descriptor = os.open(digits, os.O_RDONLY)
        os.lseek(descriptor, 4, os.SEEK_SET)
        async with ayafileio.open(descriptor) as file:
            assert file.name == descriptor and file.fileno() == descriptor
            assert await file.tell() == 4
            assert await file.read() == b"456789"
        with pytest.raises(OSError):
            os.fstat(descriptor)

    run(main())


def test_an_unusable_descriptor():
    unused = 900_000

    async def main():
        with pytest.raises(OSError) as caught:
            await ayafileio.open(unused)
        with pytest.raises(OSError) as expected:
            open(unused)
        assert caught.value.errno == expected.value.errno

    run(main())


def test_the_wrong_mode_for_a_descriptor(digits):
    async def main():
        descriptor = os.open(digits, os.O_RDONLY)
        async with ayafileio.open(descriptor, "r+b") as file:
            assert await file.read(1) == b"0"
            with pytest.raises(OSError):
                await file.write_at(0, b"x")

    run(main())
    assert digits.read_bytes() == b"0123456789"


def test_an_opener(digits, tmp_path):
    calls = []

    def opener(path, flags):
        calls.append((path, flags))
        return os.open(path, flags, 0o600)

    folder = os.open(tmp_path, os.O_RDONLY)

    def relative(path, flags):
        return os.open(path, flags, dir_fd=folder)

    async def main():
        async with ayafileio.open(digits, "rb", opener=opener) as file:
            assert await file.read(2) == b"01"
        with open(digits, "rb", opener=opener):
            pass
        assert calls[0] == calls[1]
        async with ayafileio.open("digits", opener=relative) as file:
            assert await file.read(2) == b"01"
        with pytest.raises(ValueError) as expected:
            open(digits, opener=lambda path, flags: -1)
        with pytest.raises(ValueError) as caught:
            await ayafileio.open(digits, opener=lambda path, flags: -1)
        assert str(caught.value) == str(expected.value)
        with pytest.raises(KeyError):
            await ayafileio.open(digits, opener=lambda path, flags: {}["x"])

    try:
        run(main())
    finally:
        os.close(folder)


def test_relative_names_follow_the_working_directory(digits, monkeypatch):
    monkeypatch.chdir(digits.parent)

    async def main():
        async with ayafileio.open("digits") as file:
            assert file.name == "digits"
            assert await file.read(1) == b"0"

    run(main())


def test_a_name_that_is_replaced_between_opens(tmp_path):
    path, other = tmp_path / "name", tmp_path / "other"

    async def main():
        for i in range(50):
            other.write_bytes(b"%d" % i)
            os.replace(other, path)
            async with ayafileio.open(path) as file:
                assert await file.read() == b"%d" % i

    run(main())


def test_symbolic_links_and_deleted_files(digits, tmp_path):
    (tmp_path / "link").symlink_to("digits")

    async def main():
        async with ayafileio.open(tmp_path / "link", "r+b") as file:
            digits.unlink()
            await file.write_at(0, b"X")
            assert await file.read() == b"X123456789"

    run(main())


def test_an_audit_hook_sees_the_open(digits):
    seen = []
    active = True

    def hook(event, given):
        if active and event == "open":
            seen.append(given)

    sys.addaudithook(hook)

    async def main():
        async with ayafileio.open(digits):
            pass

    run(main())
    active = False
    assert any(
        os.fspath(given[0]) == str(digits)
        for given in seen
        if isinstance(given[0], (str, os.PathLike))
    )


def test_opens_side_by_side(digits):
    async def main():
        files = await asyncio.gather(*[ayafileio.aopen(digits) for _ in range(200)])
        assert len({file.fileno() for file in files}) == 200
        assert await asyncio.gather(*[file.read(1) for file in files]) == [b"0"] * 200
        await asyncio.gather(*[file.close() for file in files])

    run(main())


def by_nothing(path):
    pass


def by_another(path):
    path.with_suffix(".new").write_bytes(b"another")
    os.replace(path.with_suffix(".new"), path)


def by_a_link(path):
    path.with_suffix(".target").write_bytes(b"behind a link")
    path.symlink_to(path.with_suffix(".target"))


def by_a_fifo(path):
    os.mkfifo(path)


@pytest.mark.parametrize(
    "put", [by_nothing, by_another, by_a_link, by_a_fifo, os.mkdir], ids=lambda put: put.__name__
)
def test_what_a_known_path_names_may_change(put, tmp_path):
    """A path that was opened before is looked at less; it is opened as what it is all the same."""
    path = tmp_path / "file"

    async def outcome(opened):
        try:
            file = await opened
        except OSError as error:
            return type(error), error.errno, error.filename
        async with file:
            return await file.read()

    def plain():
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            return type(error), error.errno, error.filename

    async def main():
        loop = asyncio.get_running_loop()
        path.write_bytes(b"first")
        for _ in range(3):
            assert await outcome(ayafileio.open(path)) == b"first"
        path.unlink()
        put(path)
        for _ in range(2):
            reading = asyncio.ensure_future(outcome(ayafileio.open(path)))
            wanted = b"through the fifo"
            if put is by_a_fifo:
                await loop.run_in_executor(None, path.write_bytes, wanted)
            else:
                wanted = plain()
            assert await asyncio.wait_for(reading, 10) == wanted
        if put is os.mkdir:
            path.rmdir()
        elif path.exists():
            path.unlink()
        path.write_bytes(b"last")
        for _ in range(3):
            assert await outcome(ayafileio.open(path)) == b"last"

    run(main())
