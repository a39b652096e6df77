"""Positioned and batched operations: right bytes, no position, and agreement with the stream."""

import asyncio
import io
import os
import random

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")


def test_the_position_is_neither_used_nor_moved(digits):
    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            await file.seek(2)
            assert await file.read_at(7, 2) == b"78"
            assert await file.write_at(0, b"ab") == 2
            buffer = bytearray(3)
            assert await file.readinto_at(8, buffer) == 2
            assert bytes(buffer) == b"89\0"
            assert await file.tell() == 2
            assert await file.read(2) == b"23"

    run(main())
    assert digits.read_bytes() == b"ab23456789"


def test_random_reads_and_writes_equal_a_model(tmp_path):
    rng = random.Random(11)
    model = bytearray(rng.randbytes(300_000))
    path = tmp_path / "model"
    path.write_bytes(model)

    async def main():
        async with ayafileio.open(path, "r+b") as file:
            for _ in range(300):
                offset = rng.randrange(320_000)
                size = rng.choice([0, 1, 100, 4096, 50_000])
                if rng.random() < 0.4:
                    data = rng.randbytes(size)
                    assert await file.write_at(offset, data) == size
                    if data:
                        model.extend(b"\0" * (offset - len(model)))
                        model[offset : offset + size] = data
                else:
                    assert await file.read_at(offset, size) == model[offset : offset + size]
            assert await file.read_at(0) == bytes(model)

    run(main())
    assert path.read_bytes() == model


def test_ten_thousand_reads_at_once(tmp_path):
    rng = random.Random(5)
    data = rng.randbytes(2 << 20)
    path = tmp_path / "data"
    path.write_bytes(data)

    async def main():
        async with ayafileio.open(path) as file:
            spans = [(rng.randrange(len(data)), rng.randrange(600)) for _ in range(10_000)]
            expected = [data[o : o + n] for o, n in spans]
            assert await asyncio.gather(*[file.read_at(o, n) for o, n in spans]) == expected
            assert await file.read_many(spans) == expected
            assert await file.read_many(iter(spans)) == expected

    run(main(), 60)


def test_write_many(tmp_path):
    path = tmp_path / "many"
    parts = [(i * 100, bytes([i % 256]) * 100) for i in range(2000)]
    random.Random(1).shuffle(parts)

    async def main():
        async with ayafileio.open(path, "wb") as file:
            given = [(o, d if i % 2 else bytearray(d)) for i, (o, d) in enumerate(parts)]
            assert await file.write_many(given) == [100] * 2000

    run(main())
    assert path.read_bytes() == b"".join(bytes([i % 256]) * 100 for i in range(2000))


def test_buffered_writes_are_seen_by_positioned_calls(tmp_path):
    path = tmp_path / "mixed"

    async def main():
        async with ayafileio.open(path, "w+b") as file:
            await file.write(b"0123456789")
            assert await file.read_at(2, 3) == b"234"
            await file.write(b"abc")
            assert await file.read_many([(9, 4), (0, 1)]) == [b"9abc", b"0"]
            await file.write(b"d")
            assert (await file.stat()).st_size == 14
            buffer = bytearray(2)
            await file.write(b"e")
            assert await file.readinto_at(13, buffer) == 2 and buffer == b"de"

    run(main())


def test_a_positioned_write_is_seen_through_the_read_ahead(digits):
    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            assert await file.read(2) == b"01"
            await file.write_at(4, b"XY")
            assert await file.read() == b"23XY6789"
            await file.seek(0)
            assert await file.read(1) == b"0"
            await file.write_many([(1, b"a"), (8, b"bc")])
            assert await file.read() == b"a23XY67bc"

    run(main())


def test_a_buffered_write_then_a_positioned_one_over_it(tmp_path):
    path = tmp_path / "over"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            await file.write(b"aaaaaa")
            await file.flush()
            await file.write_at(2, b"BB")
            await file.write(b"cc")

    run(main())
    assert path.read_bytes() == b"aaBBaacc"


def test_stat_equals_fstat(digits):
    async def main():
        async with ayafileio.open(digits) as file:
            got, expected = await file.stat(), os.fstat(file.fileno())
            assert type(got) is os.stat_result
            for name in dir(expected):
                if name.startswith("st_"):
                    assert getattr(got, name) == getattr(expected, name), name

    run(main())


def test_truncate_and_allocate(digits):
    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            await file.seek(3)
            assert await file.truncate(5) == 5
            assert await file.tell() == 3
            assert await file.truncate() == 3
            try:
                await file.allocate(0, 10_000)
            except io.UnsupportedOperation:
                return
            assert os.fstat(file.fileno()).st_size == 10_000
            assert os.fstat(file.fileno()).st_blocks * 512 >= 10_000
            with pytest.raises(OSError):
                await file.allocate(0, 0)

    run(main())


def test_advise_takes_words_and_numbers(digits):
    async def main():
        async with ayafileio.open(digits) as file:
            for advice in ("normal", "random", "sequential", "willneed", "dontneed"):
                number = getattr(os, f"POSIX_FADV_{advice.upper()}")
                assert await file.advise(0, 0, advice) is None
                assert await file.advise(advice=number) is None
            for wrong in ("rundum", "", 99, -1):
                with pytest.raises(ValueError, match="'sequential'"):
                    await file.advise(advice=wrong)
            with pytest.raises(TypeError, match="advice"):
                await file.advise(advice=None)

    run(main())


def test_fsync_makes_buffered_writes_durable_first(tmp_path):
    path = tmp_path / "durable"

    async def main():
        async with ayafileio.open(path, "wb") as file:
            await file.write(b"x" * 1000)
            assert await file.fsync() is None
            assert path.stat().st_size == 1000
            await file.write(b"y")
            assert await file.fdatasync() is None
            assert path.stat().st_size == 1001
            await file.fsync(data_only=True)

    run(main())


def test_the_memory_of_a_read_into_is_free_again_after_the_call(digits):
    async def main():
        async with ayafileio.open(digits) as file:
            buffer = bytearray(4)
            assert await file.readinto_at(0, buffer) == 4
            buffer.append(1)
            assert buffer == b"0123\1"

    run(main())


BUFFERS = [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data)).cast("H")]


@pytest.mark.parametrize("make", BUFFERS)
def test_buffers_of_every_kind_are_written(make, tmp_path):
    path = tmp_path / "kind"

    async def main():
        async with ayafileio.open(path, "w+b") as file:
            data = make(b"abcdefgh")
            assert await file.write_at(0, data) == 8
            assert await file.write(data) == 8

    run(main())
    assert path.read_bytes() == b"abcdefgh"


# The same calls on the built-in give the same types; their texts name the parameter.
REFUSED = [
    (lambda f: f.read_at(-1, 4), ValueError, "offset must not be negative, not -1"),
    (lambda f: f.read_at(-(2**70), 4), ValueError, "offset must not be negative"),
    (lambda f: f.read_at(2**63, 4), OverflowError, "offset"),
    (lambda f: f.read_at(0, 2**63), OverflowError, "size"),
    (lambda f: f.read_at(1.0, 4), TypeError, "offset must be an integer, not 'float'"),
    (lambda f: f.read_at("1", 4), TypeError, "offset must be an integer, not 'str'"),
    (lambda f: f.read_at(None), TypeError, "offset"),
    (lambda f: f.read_at(0, 1.5), TypeError, "size must be an integer, not 'float'"),
    (lambda f: f.write_at(0, "text"), TypeError, "a bytes-like object is required, not 'str'"),
    (lambda f: f.write_at(0, 5), TypeError, "a bytes-like object is required, not 'int'"),
    (lambda f: f.write_at(0, memoryview(b"abcd")[::2]), BufferError, "not C-contiguous"),
    (lambda f: f.readinto_at(0, b"fixed"), TypeError, "read-write bytes-like object, not bytes"),
    (lambda f: f.readinto_at(0, memoryview(bytearray(4))[::2]), TypeError, "read-write"),
    (lambda f: f.readinto_at(0, 4), TypeError, "read-write bytes-like object, not int"),
    (lambda f: f.read_many(5), TypeError, "spans must be an iterable of pairs, not 'int'"),
    (lambda f: f.read_many([(0, 1), 7]), TypeError, r"spans\[1\] must be a pair, not 'int'"),
    (lambda f: f.read_many([(0, 1, 2)]), ValueError, r"spans\[0\] must be a pair, not 3 values"),
    (lambda f: f.read_many([(0, 1), (-3, 1)]), ValueError, r"offset of spans\[1\].* not -3"),
    (lambda f: f.read_many([(0, "1")]), TypeError, r"size of spans\[0\] must be an integer"),
    (lambda f: f.write_many([(0, b"a"), (1, "b")]), TypeError, r"writes\[1\].*not 'str'"),
    (lambda f: f.write_many([(0.5, b"a")]), TypeError, r"offset of writes\[0\]"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_wrong_values_are_refused_by_the_await(number, digits):
    call, error, text = REFUSED[number]

    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            operation = call(file)
            with pytest.raises(error, match=text):
                await operation

    run(main())
    assert digits.read_bytes() == b"0123456789"


def test_none_and_minus_one_read_to_the_end(digits):
    async def main():
        class Index:
            def __index__(self):
                return 4

        async with ayafileio.open(digits) as file:
            assert await file.read_at(8) == await file.read_at(8, -1) == b"89"
            assert await file.read_at(8, None) == b"89"
            assert await file.read_at(Index(), Index()) == b"4567"
            assert await file.read_many([(8, None), (8, -1)]) == [b"89", b"89"]

    run(main())


def test_an_index_that_changes_the_list_is_harmless(digits):
    async def main():
        spans = []

        class Clearing:
            def __index__(self):
                spans.clear()
                return 1

        spans += [(Clearing(), 2), (3, 4)]
        async with ayafileio.open(digits) as file:
            assert await file.read_many(spans) == [b"12", b"3456"]

    run(main())


SIGNATURES = [
    (lambda f: f.read_at(), "missing 1 required positional argument: 'offset'"),
    (lambda f: f.write_at(), "missing 2 required positional arguments: 'offset' and 'data'"),
    (lambda f: f.write_at(data=b""), "missing 1 required positional argument: 'offset'"),
    (lambda f: f.read_at(1, 2, 3), "takes from 1 to 2 positional arguments but 3 were given"),
    (lambda f: f.write_many(1, 2), "takes 1 positional argument but 2 were given"),
    (lambda f: f.stat(1), "takes 0 positional arguments but 1 was given"),
    (lambda f: f.read_at(1, count=2), "got an unexpected keyword argument 'count'"),
    (lambda f: f.read_at(1, offset=2), "got multiple values for argument 'offset'"),
]


@pytest.mark.parametrize("number", range(len(SIGNATURES)))
def test_what_the_signature_refuses_is_raised_by_the_call(number, digits):
    call, text = SIGNATURES[number]

    async def main():
        async with ayafileio.open(digits, "r+b") as file:
            with pytest.raises(TypeError, match=text):
                call(file)
            assert await file.read_at(size=2, offset=3) == b"34"

    run(main())


def test_past_four_gigabytes(tmp_path):
    path = tmp_path / "sparse"
    far = (5 << 30) + 17

    async def main():
        async with ayafileio.open(path, "w+b") as file:
            assert await file.write_at(far, b"end") == 3
            assert await file.read_at(far - 1, 10) == b"\0end"
            assert await file.seek(-3, 2) == far
            assert await file.read() == b"end"

    run(main())
    assert path.stat().st_size == far + 3


def test_not_possible_on_a_pipe():
    async def main():
        out, into = os.pipe()
        with os.fdopen(into, "wb"):
            async with ayafileio.wrap_file(out, "rb", owns_fd=True) as file:
                for call in (
                    file.read_at(0, 1),
                    file.read_many([(0, 1)]),
                    file.tell(),
                    file.seek(0),
                ):
                    with pytest.raises(OSError):
                        await call

    run(main())
