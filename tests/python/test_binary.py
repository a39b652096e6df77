"""Binary files against the built-in open(): the same program of calls on both, step by step."""

import asyncio
import io
import random
import sys

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")

# Some releases before 3.13 do not see what was written when read1() follows a write.
OLD = sys.version_info < (3, 13)
MODES = ["rb", "r+b", "wb", "w+b", "ab", "a+b", "xb", "x+b"]
STEPS = [
    "read",
    "read",
    "readline",
    "readlines",
    "readall",
    "readinto",
    "readinto1",
    "read1",
    "peek",
]
STEPS += ["write", "write", "write", "writelines", "seek", "seek", "seek_end", "tell", "tell"]
STEPS += ["truncate", "flush", "line"]


def arguments(step, rng):
    size = rng.choice([-1, 0, 1, 3, 10, 100, 5000])
    if step in ("read", "read1", "readline"):
        return (size,)
    if step in ("readinto", "readinto1"):
        return (rng.choice([0, 1, 7, 300, 5000]),)
    if step == "readlines":
        return (rng.choice([-1, 0, 5, 500]),)
    if step == "write":
        return (rng.choice([b"", b"x", b"line\n", b"\r\n" * 5, bytes(rng.randbytes(3000))]),)
    if step == "writelines":
        return ([b"one\n", b"", b"two"],)
    if step == "seek":
        return rng.choice([(0,), (3,), (250,), (9000,), (-1,), (2, 1), (-2, 1), (0, 1), (1, 7)])
    if step == "seek_end":
        return rng.choice([(0, 2), (-5, 2), (10, 2), (-100_000, 2)])
    if step == "truncate":
        return rng.choice([(), (None,), (0,), (120,), (6000,)])
    return ()


def shown(value):
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def refusal(error):
    return ("raised", type(error), getattr(error, "errno", None))


def plain_step(file, step, given):
    try:
        if step in ("readinto", "readinto1"):
            buffer = bytearray(*given)
            count = getattr(file, step)(buffer)
            return count, bytes(buffer)
        if step == "readall":
            return file.read()
        if step == "peek":
            return file.peek(1)[:1]
        if step == "line":
            return next(file, b"")
        if step == "seek_end":
            return file.seek(*given)
        return shown(getattr(file, step)(*given))
    except (OSError, ValueError, AttributeError) as error:
        return refusal(error)


async def own_step(file, step, given):
    try:
        if step in ("readinto", "readinto1"):
            buffer = bytearray(*given)
            count = await getattr(file, step)(buffer)
            return count, bytes(buffer)
        if step == "peek":
            return (await file.peek(1))[:1]
        if step == "line":
            try:
                return await file.__anext__()
            except StopAsyncIteration:
                return b""
        if step == "seek_end":
            return await file.seek(*given)
        return shown(await getattr(file, step)(*given))
    except (OSError, ValueError, AttributeError) as error:
        return refusal(error)


def comparable(step, mode, expected):
    """BufferedWriter and BufferedReader lack the other's methods; this class has them all."""
    if isinstance(expected, tuple) and expected[:2] == ("raised", AttributeError):
        return ("raised", io.UnsupportedOperation, None)
    return expected


async def compare(tmp_path, seed):
    rng = random.Random(seed)
    mode = rng.choice(MODES)
    buffering = rng.choice([65536, 65536, 1024, 4096])
    ours, theirs = tmp_path / f"ours{seed}", tmp_path / f"theirs{seed}"
    if mode[0] in "rwa":
        content = b"".join(
            rng.randbytes(rng.randrange(60)) + b"\n" for _ in range(rng.randrange(120))
        )
        ours.write_bytes(content)
        theirs.write_bytes(content)
    with open(theirs, mode, buffering) as plain:
        async with ayafileio.open(ours, mode, buffering=buffering) as file:
            done = []
            for _ in range(rng.randrange(1, 25)):
                step = rng.choice(STEPS)
                given = arguments(step, rng)
                if given == (0,) and step == "readline" and "r" not in mode and "+" not in mode:
                    continue  # the built-in gives b"" even where it cannot read
                if step in ("read1", "readinto1") and (buffering < 65536 or "+" in mode and OLD):
                    continue  # how much one call gives depends on what was read ahead
                if mode == "a+b" and step in ("write", "writelines"):
                    # The built-in would read on in its buffer as if nothing had been appended.
                    plain.seek(0, 2)
                    await file.seek(0, 2)
                expected = comparable(step, mode, plain_step(plain, step, given))
                got = await own_step(file, step, given)
                done.append((step, given if step != "write" else len(given[0])))
                assert got == expected, f"seed {seed}, mode {mode}, buffering {buffering}: {done}"
            assert file.closed is False
    assert ours.read_bytes() == theirs.read_bytes(), f"seed {seed}, mode {mode}: {done}"


@pytest.mark.parametrize("start", range(0, 1000, 125))
def test_random_programs_equal_the_built_in(start, tmp_path):
    async def main():
        for seed in range(start, start + 125):
            await compare(tmp_path, seed)

    run(main(), 120)


@pytest.mark.parametrize("mode", MODES)
def test_mode_attributes_and_results(mode, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    if mode[0] != "x":
        ours.write_bytes(b"start\n")
        theirs.write_bytes(b"start\n")

    async def main():
        with open(theirs, mode) as plain:
            async with ayafileio.open(ours, mode) as file:
                assert file.mode == mode
                assert (file.readable(), file.writable(), file.seekable()) == (
                    plain.readable(),
                    plain.writable(),
                    plain.seekable(),
                )
                assert await file.tell() == plain.tell()
                if plain.writable():
                    assert await file.write(b"abc") == plain.write(b"abc")
                if plain.readable():
                    assert await file.seek(0) == plain.seek(0)
                    assert await file.read() == plain.read()
        assert ours.read_bytes() == theirs.read_bytes()

    run(main())


@pytest.mark.parametrize("mode", ["", "r+", "rw", "rr", "rb+b", "z", "rbt", "+", "U", "bb", "rbx"])
def test_refused_modes_and_texts_equal_the_built_in(mode, digits):
    if mode == "U" and sys.version_info < (3, 11):
        pytest.skip("was deprecated and still allowed")
    try:
        open(digits, mode).close()
    except ValueError as error:
        with pytest.raises(ValueError) as caught:
            ayafileio.open(digits, mode)
        assert str(caught.value) == str(error)
    else:

        async def main():
            async with ayafileio.open(digits, mode) as file:
                assert file.mode == mode

        run(main())


def test_argument_errors_of_open_come_at_the_call(digits):
    wrong = [
        {"mode": "rb", "encoding": "utf-8"},
        {"mode": "rb", "errors": "strict"},
        {"mode": "rb", "newline": "\n"},
        {"mode": "r", "newline": "\t"},
        {"mode": "r", "buffering": 0},
        {"mode": "rb", "closefd": False},
        {"mode": "rb", "buffering": -5},
    ]
    for given in wrong:
        try:
            open(digits, **given).close()
        except Exception as error:
            with pytest.raises(type(error)) as caught:
                ayafileio.open(digits, **given)
            assert str(caught.value) == str(error), given
        else:
            run(opened(digits, given))


async def opened(path, given):
    async with ayafileio.open(path, **given):
        pass


def test_exclusive_creation_refuses_an_existing_file(digits):
    async def main():
        for way in ("xb", "x+b", "x"):
            with pytest.raises(FileExistsError) as caught:
                await ayafileio.open(digits, way)
            assert caught.value.filename == str(digits)

    run(main())
    assert digits.read_bytes() == b"0123456789"


def test_unbuffered_calls_reach_the_system_one_by_one(tmp_path):
    path = tmp_path / "raw"

    async def main():
        async with ayafileio.open(path, "w+b", buffering=0) as file:
            for size in (1, 70_000, 3):
                before = path.stat().st_size
                assert await file.write(b"x" * size) == size
                assert path.stat().st_size == before + size
            await file.seek(0)
            buffer = bytearray(5)
            assert await file.readinto(buffer) == 5 and buffer == b"xxxxx"
            assert await file.tell() == 5
            assert len(await file.readall()) == 70_004 - 5
            assert await file.read() == b""

    run(main())


def test_flush_hands_the_buffer_to_the_system(tmp_path):
    path = tmp_path / "flushed"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            await file.write(b"x" * 100)
            assert path.read_bytes() == b""
            await file.flush()
            assert path.read_bytes() == b"x" * 100

    run(main())


def test_large_writes_are_whole_whatever_holds_them(tmp_path):
    data = random.Random(7).randbytes(5 << 20)
    path = tmp_path / "large"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            assert await file.write(data) == len(data)
            assert await file.write(bytearray(data)) == len(data)
            assert await file.write(memoryview(data)) == len(data)
        async with ayafileio.open(path, "rb") as file:
            assert await file.read(len(data)) == data
            assert await file.read() == data + data

    run(main())
    assert path.read_bytes() == data * 3


def test_a_buffer_may_change_after_its_write(tmp_path):
    path = tmp_path / "changing"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            buffer = bytearray(200_000)
            for i in range(20):
                buffer[:] = bytes([i]) * len(buffer)
                await file.write(buffer)
            buffer[:] = b"\xff" * len(buffer)

    run(main())
    assert path.read_bytes() == b"".join(bytes([i]) * 200_000 for i in range(20))


def test_position_calls_run_in_the_order_of_their_making(tmp_path):
    path = tmp_path / "ordered"

    async def main():
        async with ayafileio.open(path, "w+b") as file:
            lines = [b"%06d\n" % i for i in range(3000)]
            written = [file.write(line) for line in lines]
            assert await asyncio.gather(*written) == [7] * len(lines)
            await file.seek(0)
            read = await asyncio.gather(*[file.readline() for _ in lines])
            assert read == lines

    run(main())


def test_iteration_gives_the_built_in_lines(tmp_path):
    rng = random.Random(3)
    path = tmp_path / "lines"
    path.write_bytes(
        b"".join(rng.randbytes(rng.choice([0, 5, 500, 70_000])) + b"\n" for _ in range(80))
    )

    async def main():
        async with ayafileio.open(path) as file:
            got = [line async for line in file]
        with open(path, "rb") as plain:
            assert got == list(plain)

    run(main())


def test_a_child_process_goes_on_where_the_flushed_stream_stopped(tmp_path):
    path = tmp_path / "shared"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            await file.write(b"parent\n")
            await file.flush()
            child = await asyncio.create_subprocess_exec("echo", "child", stdout=file.fileno())
            await child.wait()
            await file.seek(0, 2)
            await file.write(b"again\n")

    run(main())
    assert path.read_bytes() == b"parent\nchild\nagain\n"
