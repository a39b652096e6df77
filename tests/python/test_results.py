"""The memory of results is used again: never while somebody holds one."""

import asyncio
import os
import random
import sys

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")

SIZES = (1, 511, 512, 4096, 4097, 65536, 1 << 20, (2 << 20) + 1)


def test_a_result_that_is_held_never_changes(tmp_path):
    path = tmp_path / "file"
    data = os.urandom(4 << 20)
    path.write_bytes(data)

    async def main():
        rng = random.Random(1)
        held = []
        async with ayafileio.open(path) as file:
            for _ in range(3000):
                size = rng.choice(SIZES)
                offset = rng.randrange(len(data) - size)
                how = rng.randrange(4)
                if how == 0:
                    await file.seek(offset)
                    got = await file.read(size)
                elif how == 1:
                    got = (await file.read_many([(offset, size), (0, size)]))[0]
                elif how == 2:
                    got = await asyncio.wait_for(file.read_at(offset, size), 60)
                else:
                    got = await asyncio.ensure_future(file.read_at(offset, size))
                assert got == data[offset : offset + size]
                kept = rng.choice((got, memoryview(got), None))
                if kept is not None:
                    held.append((kept, hash(kept), offset, size))
                while len(held) > 20 or (held and rng.random() < 0.4):
                    kept, known, offset, size = held.pop(rng.randrange(len(held)))
                    assert kept == data[offset : offset + size]
                    assert hash(bytes(kept)) == known == hash(data[offset : offset + size])

    run(main())


def test_a_result_that_was_hashed_and_dropped_is_hashed_anew(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * 4096 + b"b" * 4096)

    async def main():
        async with ayafileio.open(path) as file:
            for _ in range(20):
                for offset, letter in ((0, b"a"), (4096, b"b")):
                    assert hash(await file.read_at(offset, 4096)) == hash(letter * 4096)
                    assert {letter * 4096: 1}[await file.read_at(offset, 4096)] == 1

    run(main())


def references(objects):
    return [sys.getrefcount(one) for one in objects]


def test_what_is_kept_is_bounded_and_goes_with_the_loop(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(4 << 20))
    held = {}
    (usual,) = references([bytes(600)])

    async def main():
        async with ayafileio.open(path) as file:
            for size in (600, 4096, 1 << 20, 4 << 20):
                held[size] = await file.read_many([(0, size)] * min(2000, (64 << 20) // size))
                kept = sum(references(held[size])) - len(held[size]) * usual
                assert kept <= 1024
                assert kept * size <= 4 << 20

    run(main())
    for results in held.values():
        assert set(references(results)) == {usual}
