"""Names, signatures, attributes and warnings, against the built-in open() where it has them."""

import asyncio
import gc
import inspect
import io
import os
import sys
import weakref

import pytest

import ayafileio
from support import program, run

pytestmark = pytest.mark.usefixtures("backend")


def test_the_file_has_every_name():
    names = (
        """read readline readlines readall readinto readinto1 read1 peek chunk read_at readinto_at
    read_many write writelines write_at write_many seek tell truncate flush fsync fdatasync stat
    allocate advise close closed name mode encoding errors newlines line_buffering write_through
    reconfigure buffer detach raw readable writable seekable fileno isatty open __aiter__ __anext__
    __aenter__ __aexit__ __await__""".split()
    )
    assert [name for name in names if not hasattr(ayafileio.AsyncFile, name)] == []


def test_generic_in_str_and_bytes():
    assert ayafileio.AsyncFile[str].__origin__ is ayafileio.AsyncFile
    assert ayafileio.AsyncFile[bytes].__args__ == (bytes,)


def test_the_signature_of_open():
    parameters = inspect.signature(ayafileio.open).parameters
    assert [(p.name, p.kind.name, p.default) for p in parameters.values()] == [
        ("path", "POSITIONAL_OR_KEYWORD", inspect.Parameter.empty),
        ("mode", "POSITIONAL_OR_KEYWORD", "rb"),
        ("encoding", "POSITIONAL_OR_KEYWORD", None),
        ("newline", "POSITIONAL_OR_KEYWORD", None),
        ("errors", "POSITIONAL_OR_KEYWORD", None),
        ("auto_flush", "POSITIONAL_OR_KEYWORD", False),
        ("buffering", "KEYWORD_ONLY", -1),
        ("closefd", "KEYWORD_ONLY", True),
        ("opener", "KEYWORD_ONLY", None),
    ]


def test_three_ways_of_opening(digits):
    async def main():
        async with ayafileio.open(digits) as file:
            assert await file.read(1) == b"0"
        file = await ayafileio.open(digits)
        assert await file.read(1) == b"0"
        await file.close()
        file = ayafileio.open(digits)
        assert await file.read(1) == b"0"
        await file.close()
        async with ayafileio.AsyncFile.open(digits) as file:
            assert type(file) is ayafileio.AsyncFile
            async with file as again:
                assert again is file
            assert file.closed
        file = await ayafileio.aopen(digits, "r", encoding="ascii")
        assert await file.read(1) == "0"
        await file.close()

    run(main())


def test_while_the_open_is_pending(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def main():
        file = ayafileio.open(fifo, "rb")
        reading = file.read()
        assert (file.closed, file.name, file.mode) == (False, str(fifo), "rb")
        assert file.readable() and not file.writable()
        for plain in (file.fileno, file.isatty, file.seekable):
            with pytest.raises(ValueError, match="still being opened"):
                plain()
        async with ayafileio.open(fifo, "wb") as other:
            await other.write(b"now")
        assert await reading == b"now"
        assert file.fileno() >= 0 and not file.isatty() and not file.seekable()
        await file.close()

    run(main())


def test_repr_tells_the_state(digits, tmp_path):
    async def main():
        file = ayafileio.open(digits)
        await file
        assert "digits" in repr(file) and "rb" in repr(file)
        shown = repr(file)
        await file.close()
        assert "closed" in repr(file) and repr(file) != shown
        out, into = os.pipe()
        async with ayafileio.wrap_file(out, "rb", owns_fd=True) as pipe:
            reading = pipe.read(1)
            assert "pending" in repr(reading)
            os.write(into, b"x")
            await reading
            assert "pending" not in repr(reading)
        os.close(into)

    run(main())


def test_weak_references(digits):
    async def main():
        file = await ayafileio.open(digits)
        reference = weakref.ref(file)
        assert reference() is file
        await file.close()
        del file
        gc.collect()
        assert reference() is None

    run(main())


def test_attributes_of_text_and_binary_files(digits):
    options = [
        {"mode": "r"},
        {"mode": "r+", "encoding": "utf-8", "errors": "replace", "newline": ""},
        {"mode": "w", "encoding": "latin-1", "buffering": 1},
        {"mode": "rb"},
        {"mode": "wb", "buffering": 0},
    ]
    names = "encoding errors newlines line_buffering write_through mode name closed".split()

    async def main():
        for given in options:
            with open(digits, **given) as plain:
                async with ayafileio.open(digits, **given) as file:
                    for name in names:
                        if name == "mode" or hasattr(plain, name):
                            expected = getattr(plain, name) if name != "mode" else given["mode"]
                            assert getattr(file, name) == expected, (given, name)
                        else:
                            assert not hasattr(file, name), (given, name)

    run(main())


def test_buffer_raw_and_detach(digits):
    async def main():
        async with ayafileio.open(digits, "r", encoding="ascii") as file:
            beneath = file.buffer
            assert beneath is file.buffer
            assert await beneath.read(2) == b"01"
            with open(digits, "r", encoding="ascii") as plain:
                assert beneath.mode == plain.buffer.mode
        assert beneath.closed
        file = await ayafileio.open(digits, "r", encoding="ascii")
        beneath = await file.detach()
        with pytest.raises(ValueError):
            await file.read()
        assert await beneath.read(3) == b"012"
        await beneath.close()

    run(main())


def test_chunk_gives_the_file_in_pieces(digits):
    async def main():
        async with ayafileio.open(digits) as file:
            assert [bytes(piece) async for piece in file.chunk(4)] == [b"0123", b"4567", b"89"]
            await file.seek(0)
            buffer = bytearray(4)
            pieces = [bytes(piece) async for piece in file.chunk(4, buf=buffer)]
            assert pieces == [b"0123", b"4567", b"89"]

    run(main())


def test_wrong_calls_raise_type_error_at_the_call(digits):
    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            wrong = [
                lambda: file.read(1, 2),
                lambda: file.read(count=2),
                lambda: file.write(),
                lambda: file.seek(),
                lambda: file.seek(0, 0, 0),
                lambda: file.close(1),
                lambda: ayafileio.open(),
                lambda: ayafileio.open(digits, "rb", mode="rb"),
                lambda: ayafileio.open(digits, nothing=1),
                lambda: ayafileio.open(digits, "rb", None, None, None, False, -1),
            ]
            for call in wrong:
                with pytest.raises(TypeError):
                    call()

    run(main())


def test_wrong_values_raise_from_the_await(digits):
    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            for make, error in [
                (lambda: file.write("text"), TypeError),
                (lambda: file.read(1.5), TypeError),
                (lambda: file.read("1"), TypeError),
                (lambda: file.seek("1"), TypeError),
                (lambda: file.seek(-1), (OSError, ValueError)),
                (lambda: file.seek(0, 9), ValueError),
                (lambda: file.truncate(-1), (OSError, ValueError)),
                (lambda: file.readinto(b"fixed"), TypeError),
            ]:
                operation = make()
                with pytest.raises(error):
                    await operation
            assert await file.read(1) == b"0"

    run(main())


def test_unsupported_directions(digits):
    async def main():
        async with ayafileio.open(digits, "rb") as reader:
            for call in (reader.write(b"x"), reader.truncate(0), reader.write_at(0, b"x")):
                with pytest.raises(io.UnsupportedOperation):
                    await call
        async with ayafileio.open(digits, "ab") as writer:
            for call in (writer.read(), writer.readline(), writer.read_at(0, 1)):
                with pytest.raises(io.UnsupportedOperation):
                    await call
            with pytest.raises(io.UnsupportedOperation):
                async for _ in writer:
                    pass

    run(main())
    assert digits.read_bytes() == b"0123456789"


def test_no_reference_is_left_by_refused_arguments(digits):
    class Buffer(bytearray):
        pass

    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            buffer = Buffer(b"abcd")
            kept = weakref.ref(buffer)
            for make in (
                lambda: file.write_at(-1, buffer),
                lambda: file.write_many([(0, buffer), (0, "x")]),
                lambda: file.readinto_at(-1, buffer),
                lambda: file.write_at(0, buffer),
                lambda: file.write_many([(0, buffer)]),
                lambda: file.readinto_at(0, buffer),
                lambda: file.write(buffer),
                lambda: file.readinto(buffer),
            ):
                await asyncio.gather(make(), return_exceptions=True)
                buffer.append(1)
            del buffer, make
            gc.collect()
            assert kept() is None

    run(main())


def test_encoding_warning(tmp_path, backend):
    program(
        tmp_path,
        backend,
        """
        async def main():
            async with ayafileio.open("f", "w") as file:
                await file.write("x")
            async with ayafileio.open("f", "r", encoding="locale") as file:
                await file.read()
        asyncio.run(main())
        """,
        flags=("-X", "warn_default_encoding"),
    )
    warned = [line for line in program.stderr.splitlines() if "EncodingWarning" in line]
    assert len(warned) == 1 and "program.py" in warned[0]


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="3.12 crashes at its exit when several interpreters have imported asyncio",
)
def test_a_module_of_its_own_in_each_interpreter(tmp_path, backend):
    out = program(
        tmp_path,
        backend,
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        open("f", "wb").write(b"0123456789")
        code = '''
        import sys
        sys.path[:] = PATHS
        import asyncio, ayafileio
        async def main():
            async with ayafileio.open("f") as file:
                assert await file.read_at(2, 2) == b"23"
                assert await file.read(1) == b"0"
        asyncio.run(main())
        '''
        import textwrap
        for _ in range(3):
            one = interpreters.create()
            text = textwrap.dedent(code).replace("PATHS", repr(sys.path))
            failed = interpreters.run_string(one, text)
            assert failed is None, failed
            interpreters.destroy(one)
        print("ran", flush=True)
        if sys.version_info[:2] == (3, 12):
            os._exit(0)  # 3.12.1 aborts at its exit where asyncio ran in a subinterpreter
        """,
    )
    assert out == "ran\n"
