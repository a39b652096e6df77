"""Text files call by call: each result, exception and position is the built-in open()'s."""

import asyncio
import os
import sys
import time

import pytest

import ayafileio
from support import Heartbeat, program, run

# What never waits is the same on every backend.
on_every_backend = pytest.mark.usefixtures("backend")

MIXED = "".join(("\u4e2d\u6587", "ascii", "\U0001f600", "\xfc")[i % 4] * (i % 9) + "\n"
                for i in range(9000))  # several chunks, characters of one to four bytes


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


async def outcome_of(call):
    try:
        return await call()
    except Exception as error:
        return type(error), str(error)


# -- positions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "gb18030", "iso2022_jp", "hz"])
@pytest.mark.parametrize("newline", [None, "", "\r\n"])
def test_each_position_leads_back(tmp_path, encoding, newline):
    """Stateful codecs too, with which the built-in's tell() fails."""
    path = tmp_path / "file"
    text = "".join("\u65e5\u672c" * (i % 5) + "x" * (i % 3) + "\n\r\n"[i % 2:] for i in range(3000))
    path.write_bytes(text.encode(encoding))
    expected = text if newline is not None else text.replace("\r\n", "\n")

    async def main():
        marks = []
        async with ayafileio.open(path, "r", encoding=encoding, newline=newline) as file:
            at = 0
            while piece := await file.read(97):
                at += len(piece)
                marks.append((await file.tell(), at))
                line = await file.readline()
                at += len(line)
                marks.append((await file.tell(), at))
            for position, at in reversed(marks[-30:] + marks[::40]):
                assert await file.seek(position) == position
                assert await file.read(50) == expected[at:at + 50]
                assert await file.seek(0, 1) >= 0
                assert await file.read(5) == expected[at + 50:at + 55]

    run(main())


def test_plain_positions_are_byte_offsets(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(MIXED.encode())

    async def main():
        async with ayafileio.open(path, "r", encoding="utf-8") as file:
            at = 0
            async for line in file:
                at += len(line.encode())
                if at % 7 == 0:
                    assert await file.tell() == at

    run(main())


SEEKS = [(0,), (0, 0), (3,), (-1,), (1, 1), (0, 1), (1, 2), (0, 2), (0, 5), ("x",), (None,),
         (1 << 300,), (1.0,), (True,)]


@pytest.mark.parametrize("mode", ["r", "r+", "w"])
def test_seeks(digits, mode):
    async def main():
        with open(digits, mode, encoding="utf-8") as expected:
            async with ayafileio.open(digits, mode, encoding="utf-8") as file:
                for arguments in SEEKS:
                    theirs = outcome(lambda: expected.seek(*arguments))
                    ours = await outcome_of(lambda: file.seek(*arguments))
                    if isinstance(theirs, tuple) and theirs[0] is OverflowError:
                        theirs, ours = theirs[0], ours[0]
                    assert ours == theirs, arguments
                    assert await file.tell() == expected.tell()

    run(main())


def test_a_position_out_of_range_is_refused(digits):
    async def main():
        async with ayafileio.open(digits, "r", encoding="utf-8") as file:
            for position in (1 << 63, 1 << 160, 5 << 192 | 1 << 128, (1 << 264) - 1):
                with pytest.raises((OSError, OverflowError)):
                    await file.seek(position)
            await file.seek(4)
            assert await file.read() == "456789"

    run(main())


@on_every_backend
def test_a_pipe_has_no_position():
    async def main():
        out, into = os.pipe()
        os.close(into)
        async with ayafileio.open(out, "r", encoding="utf-8") as file:
            for call in (file.tell, lambda: file.seek(0), lambda: file.seek(1, 1)):
                with pytest.raises(OSError, match="underlying stream is not seekable"):
                    await call()
            assert await file.read() == ""

    run(main())


@pytest.mark.parametrize("size", [100, 8191, 8192, 30_000])
def test_a_write_after_a_read_goes_where_the_built_in_has_it(tmp_path, size):
    """Not where the characters were read to: behind the piece that was decoded."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        path.write_bytes(b"line\n" * (size // 5))
    with open(theirs, "r+", encoding="utf-8") as expected:
        assert expected.readline() == "line\n"
        expected.write("written")

    async def main():
        async with ayafileio.open(ours, "r+", encoding="utf-8") as file:
            assert await file.readline() == "line\n"
            await file.write("written")

    run(main())
    assert ours.read_bytes() == theirs.read_bytes()


# -- lines and newlines ----------------------------------------------------------------------------


@pytest.mark.parametrize("content", [
    b"", b"a", b"a\n", b"a\r", b"a\r\n", b"\r\n\r\n", b"a\nb\rc", b"a\rb\r\nc", b"\n\r\n",
    b"\n\n\r\r\n\r"])
@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
def test_newlines_seen(tmp_path, content, newline):
    path = tmp_path / "file"
    path.write_bytes(content)

    async def main():
        with open(path, encoding="utf-8", newline=newline) as expected:
            async with ayafileio.open(path, "r", encoding="utf-8", newline=newline) as file:
                assert file.newlines == expected.newlines
                for _ in range(8):
                    assert await file.readline() == expected.readline()
                    assert file.newlines == expected.newlines
                await file.seek(0)
                expected.seek(0)
                assert file.newlines == expected.newlines

    run(main())


@pytest.mark.parametrize("hint", [-1, 0, 1, 3, 4, 5, 8, 100, None])
def test_readlines_hint(tmp_path, hint):
    path = tmp_path / "file"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")

    async def main():
        with open(path, encoding="utf-8") as expected:
            async with ayafileio.open(path, "r", encoding="utf-8") as file:
                assert await file.readlines(hint) == expected.readlines(hint)
                assert await file.read() == expected.read()

    run(main())


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding,content", [
    ("utf-8", b"ab\xffcd\n"), ("utf-8", b"ab\xe2\x82"), ("ascii", b"a\xe9b\n"),
    ("utf-16", b"\xff\xfea"), ("cp932", b"ab\x85"), ("utf-8-sig", b"\xef\xbb\xbf\xff")])
@pytest.mark.parametrize("read", ["read", "readline", "readlines"])
def test_a_decoding_error_is_the_built_in_one(tmp_path, encoding, content, read):
    path = tmp_path / "file"
    path.write_bytes(content)

    async def main():
        with open(path, encoding=encoding) as expected:
            async with ayafileio.open(path, "r", encoding=encoding) as file:
                for _ in range(3):
                    theirs = outcome(getattr(expected, read))
                    assert await outcome_of(getattr(file, read)) == theirs

    run(main())


def test_an_encoding_error_writes_nothing(tmp_path):
    path = tmp_path / "file"

    async def main():
        async with ayafileio.open(path, "w", encoding="latin-1") as file:
            await file.write("one ")
            with pytest.raises(UnicodeEncodeError):
                await file.write("two \u20ac")
            with pytest.raises(TypeError, match="write.. argument must be str, not bytes"):
                await file.write(b"two")
            with pytest.raises(UnicodeEncodeError):
                await file.writelines(["two ", "\u20ac", "three "])
            await file.write("four")

    run(main())
    assert path.read_bytes() == b"one two four"


def test_lines_are_those_of_the_call(tmp_path):
    path = tmp_path / "file"

    def lines():
        yield "d"
        raise KeyError("lines")

    async def main():
        async with ayafileio.open(path, "w", encoding="utf-8") as file:
            given = ["a", "b"]
            writing = file.writelines(given)
            given[:] = ["x"]
            await writing
            await file.writelines(iter(("c",)))
            with pytest.raises(KeyError, match="lines"):
                await file.writelines(lines())
            with pytest.raises(TypeError, match="not iterable"):
                await file.writelines(5)

    run(main())
    assert path.read_bytes() == b"abcd"


@pytest.mark.parametrize("options", [
    {"encoding": 5}, {"errors": 5}, {"newline": 5}, {"newline": "x"}, {"newline": "\n\n"},
    {"newline": "\n\0"}, {"encoding": "no-such"}, {"encoding": "hex"}, {"encoding": "a\0"},
    {"encoding": ""}, {"errors": "a\0"}, {"encoding": "\ud800"}])
def test_refused_options(digits, options):
    options = {"encoding": "utf-8", **options}
    with pytest.raises(Exception) as theirs:
        open(digits, "r", **options)

    async def main():
        with pytest.raises(theirs.type) as ours:
            ayafileio.open(digits, "r", **options)
        assert str(ours.value) == str(theirs.value)

    run(main())


# -- writing ---------------------------------------------------------------------------------------


@on_every_backend
@pytest.mark.parametrize("written", ["a", "a\n", "a\r", "\r\nb", ""])
@pytest.mark.parametrize("newline", [None, "", "\r", "\r\n"])
def test_line_buffering(tmp_path, written, newline):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"

    async def main():
        with open(theirs, "w", 1, encoding="utf-8", newline=newline) as expected:
            async with ayafileio.open(ours, "w", buffering=1, encoding="utf-8",
                                      newline=newline) as file:
                for text in ("x", written, "y"):
                    assert await file.write(text) == expected.write(text)
                    assert ours.read_bytes() == theirs.read_bytes()
                assert file.line_buffering is expected.line_buffering is True

    run(main())


@on_every_backend
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "iso2022_jp", "latin-1"])
def test_bytes_written(tmp_path, encoding):
    """Small and large, in order, around seeks and appends: one byte-order mark, at the start."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    word = "\xe9" if encoding == "latin-1" else "\u304b"
    parts = ["a", word, "", "plain\n" * 30_000, (word + "x\n") * 20_000, "z"]

    async def main():
        for mode in ("w", "a", "a", "r+"):
            with open(theirs, mode, encoding=encoding) as expected:
                async with ayafileio.open(ours, mode, encoding=encoding) as file:
                    for part in parts:
                        assert await file.write(part) == expected.write(part)
                    await file.seek(0)
                    expected.seek(0)
                    assert await file.write(word) == expected.write(word)
                    await file.seek(0, 2)
                    expected.seek(0, 2)
                    assert await file.write(word) == expected.write(word)
            assert ours.read_bytes() == theirs.read_bytes()

    run(main())


# -- reconfigure -----------------------------------------------------------------------------------

RECONFIGURE = [
    {}, {"encoding": None}, {"encoding": "latin-1"}, {"encoding": "utf-16"}, {"errors": "replace"},
    {"encoding": "ascii", "errors": None}, {"newline": None}, {"newline": ""}, {"newline": "\r\n"},
    {"newline": "x"}, {"newline": 5}, {"encoding": 5}, {"errors": 5}, {"encoding": "no-such"},
    {"encoding": "hex"}, {"line_buffering": True}, {"line_buffering": None},
    {"line_buffering": "x"},
    {"write_through": 1}, {"unknown": 1}, {"encoding": "locale"}]
ATTRIBUTES = ("encoding", "errors", "line_buffering", "write_through", "newlines")


@pytest.mark.parametrize("options", RECONFIGURE, ids=str)
@pytest.mark.parametrize("before", ["nothing", "readline", "read", "write", "seek"])
def test_reconfigure(tmp_path, options, before):
    if sys.version_info < (3, 11) and options == {"encoding": "locale"}:
        pytest.skip("3.10 knows no encoding='locale' here")
    if sys.version_info < (3, 11) and 5 in options.values() and before == "readline":
        pytest.skip("3.10 looks at types last")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        path.write_bytes(b"one\r\ntwo\nthree")

    async def main():
        with open(theirs, "r+", encoding="utf-8") as expected:
            async with ayafileio.open(ours, "r+", encoding="utf-8") as file:
                if before in ("readline", "read"):
                    assert await getattr(file, before)() == getattr(expected, before)()
                elif before == "write":
                    assert await file.write("w\n") == expected.write("w\n")
                elif before == "seek":
                    assert await file.seek(5) == expected.seek(5)
                changed = outcome(lambda: expected.reconfigure(**options))
                try:
                    assert await file.reconfigure(**options) == changed
                    assert ours.read_bytes() == theirs.read_bytes()
                except AssertionError:
                    raise
                except Exception as error:
                    assert changed[0] is type(error)
                for name in ATTRIBUTES:
                    assert getattr(file, name) == getattr(expected, name), name
                assert await file.seek(0, 2) == expected.seek(0, 2)
                last = "e\nx" if file.encoding == "ascii" else "\xe9\nx"
                assert await file.write(last) == expected.write(last)

    run(main())
    assert ours.read_bytes() == theirs.read_bytes()


def test_reconfigure_takes_no_positional_argument(digits):
    async def main():
        async with ayafileio.open(digits, "r", encoding="utf-8") as file:
            with pytest.raises(TypeError, match="positional"):
                file.reconfigure("latin-1")

    run(main())


# -- the default encoding --------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("-X", "utf8=1"), ("-X", "utf8=0")])
@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}])
def test_default_encodings(tmp_path, flags, environment):
    out = program(tmp_path, "auto", """
    async def main():
        for options in ({}, {"encoding": None}, {"encoding": "locale"}):
            with open("f", "w", **options) as theirs:
                async with ayafileio.open("f", "w", **options) as ours:
                    assert ours.encoding == theirs.encoding, (ours.encoding, theirs.encoding)
                    assert ours.errors == theirs.errors
        print("same")
    asyncio.run(main())
    """, flags=flags, env=environment)
    assert out == "same\n"


def test_development_mode_refuses_an_unknown_handler_at_once(tmp_path):
    out = program(tmp_path, "auto", """
    async def main():
        try:
            ayafileio.open("f", "w", encoding="utf-8", errors="no-such")
        except LookupError as error:
            print(error)
    asyncio.run(main())
    """, flags=("-X", "dev"))
    assert out == "unknown error handler name 'no-such'\n"


# -- reads that nobody took ------------------------------------------------------------------------

READS = [("read",), ("read", 5), ("read", 100_000), ("readline",), ("readline", 3), ("readlines",),
         ("readlines", 200_000), ("__anext__",)]


async def thrown_away(operation):
    """The read has ended, but its waiter is told something else."""
    assert operation.done()
    with pytest.raises(KeyError):
        operation.throw(KeyError("waiter"))


def call(file, name, *arguments):
    return getattr(file, name)(*arguments)


async def until_done(file, name, *arguments):
    """An operation that has ended and was not awaited."""
    operation = call(file, name, *arguments)
    while not operation.done():
        await asyncio.sleep(0.001)
    return operation


@on_every_backend
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
@pytest.mark.parametrize("read", READS, ids=str)
def test_a_read_that_was_not_delivered_is_read_again(tmp_path, encoding, read):
    path = tmp_path / "file"
    path.write_bytes(MIXED.replace("\n", "\r\n").encode(encoding))

    async def main():
        async with ayafileio.open(path, "r", encoding=encoding) as file:
            for characters in (0, 3, 20_001):
                await file.seek(0)
                assert await file.read(characters) == MIXED[:characters]
                before = await file.tell()
                await thrown_away(await until_done(file, *read))
                assert await file.tell() == before
                await thrown_away(await until_done(file, *read))
                assert await file.read() == MIXED[characters:]

    run(main())


@on_every_backend
@pytest.mark.parametrize("read", READS, ids=str)
def test_a_read_of_a_pipe_that_was_not_delivered_is_read_again(read):
    async def main():
        out, into = os.pipe()
        async with ayafileio.open(out, "r", encoding="utf-8") as file:
            text = MIXED[:6000]
            assert os.write(into, text.encode()) == len(text.encode())
            os.close(into)
            assert await file.read(3) == text[:3]
            await thrown_away(await until_done(file, *read))
            await thrown_away(await until_done(file, *read))
            assert await file.read() == text[3:]

    run(main())


@on_every_backend
def test_a_read_is_not_undone_over_a_later_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")

    async def main():
        async with ayafileio.open(path, "r+", encoding="utf-8") as file:
            first = file.readline()
            assert await file.readline() == "two\n"
            await thrown_away(first)
            assert await file.readline() == "three\n"
            last = file.readline()
            await file.seek(0)
            await thrown_away(last)
            assert await file.readline() == "one\n"
            read = file.read()
            await file.write("five\n")
            await thrown_away(read)
            await file.seek(0)
            assert await file.read() == "one\ntwo\nthree\nfour\nfive\n"

    run(main())


@on_every_backend
def test_a_cancelled_read_of_a_pipe_loses_no_text():
    """Half a line, half a character, half a line end: all of it goes to the next read."""

    async def main():
        out, into = os.pipe()
        async with ayafileio.open(out, "r", encoding="utf-8") as file:
            async def cancelled(*read):
                operation = call(file, *read)
                await asyncio.sleep(0.02)
                assert operation.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await operation

            os.write(into, "h\xe9llo \u20ac".encode()[:-1])
            await cancelled("readline")
            await cancelled("read", 50)
            await cancelled("read")
            await cancelled("readlines")
            os.write(into, "\u20ac".encode()[-1:] + b" world\r")
            await cancelled("read", 50)
            os.write(into, b"\nnext\n\nlast")
            assert await file.readline() == "h\xe9llo \u20ac world\n"
            await cancelled("readlines")
            os.close(into)
            assert await file.readlines() == ["next\n", "\n", "last"]

    run(main())


@on_every_backend
def test_a_cancelled_read_of_a_cold_file_loses_no_text(tmp_path):
    """Wherever the cancel comes: before, within or after the transfer."""
    path = tmp_path / "file"
    path.write_bytes(MIXED.encode() * 4)

    def cool():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

    async def main():
        for turns in range(12):
            for read in READS:
                cool()
                async with ayafileio.open(path, "r", encoding="utf-8") as file:
                    assert await file.read(10) == MIXED[:10]
                    cool()
                    operation = call(file, *read)
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    if operation.cancel():
                        with pytest.raises(asyncio.CancelledError):
                            await operation
                    else:
                        await thrown_away(operation)
                    assert await file.read() == (MIXED * 4)[10:]

    run(main(), 60)


# -- many lines in one call ------------------------------------------------------------------------


def test_a_call_that_reads_many_lines_leaves_the_loop_its_turns(tmp_path):
    path = tmp_path / "file"
    path.write_text("a line of some words\n" * 1_000_000, encoding="utf-8")

    async def main():
        async with ayafileio.open(path, "r", encoding="utf-8") as file:
            reading = file.readlines()
            assert not reading.done()
            async with Heartbeat() as heartbeat:
                began = time.monotonic()
                lines = await reading
                lasted = time.monotonic() - began
            assert len(lines) == 1_000_000
            assert heartbeat.longest < max(lasted / 4, 0.02)
            await file.seek(0)
            reading = file.read(15_000_000)
            assert not reading.done()
            assert file.readline().cancel()
            assert len(await reading) == 15_000_000

    run(main())


def test_a_call_that_reads_many_lines_can_be_cancelled_between_turns(tmp_path):
    path = tmp_path / "file"
    path.write_text("a line of some words\n" * 200_000, encoding="utf-8")

    async def main():
        async with ayafileio.open(path, "r", encoding="utf-8") as file:
            for turns in range(5):
                assert await file.readline() == "a line of some words\n"
                reading, behind = file.readlines(), file.tell()
                for _ in range(turns):
                    await asyncio.sleep(0)
                assert reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
                assert await behind == 21 * (turns + 1)
            assert len(await file.readlines()) == 200_000 - 5
        return ayafileio.open(path, "r", encoding="utf-8").readlines()

    left = run(main())
    assert left.cancelled() or not left.done()


def test_a_call_that_writes_many_lines_leaves_the_loop_its_turns(tmp_path):
    path = tmp_path / "file"
    lines = ["a line of some words\n"] * 400_000

    async def main():
        async with ayafileio.open(path, "w", encoding="utf-8") as file:
            async with Heartbeat() as heartbeat:
                began = time.monotonic()
                writing, behind = file.writelines(lines), file.write("end\n")
                assert not writing.done() and not behind.done()
                assert await behind == 4
                lasted = time.monotonic() - began
            assert await writing is None
            assert heartbeat.longest < max(lasted / 4, 0.02)
            assert await file.tell() == 21 * 400_000 + 4
            file.writelines(lines).cancel()

    run(main())
    assert path.read_text(encoding="utf-8") == "".join([*lines, "end\n", *lines])
