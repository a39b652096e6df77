"""Large writes of what never changes are kept, not copied, and written while the next ones come."""

import asyncio
import random
import signal
import sys

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")

BLOCK = 65536


def test_a_block_is_accepted_at_once_and_let_go_when_it_is_written(tmp_path):
    block = random.Random(1).randbytes(BLOCK)
    before = sys.getrefcount(block)

    async def main():
        async with ayafileio.open(tmp_path / "file", "wb") as file:
            for _ in range(20):
                await asyncio.sleep(0)  # the first calls of a turn are not put off
                operation = file.write(block)
                assert operation.done() and await operation == BLOCK
                del operation
            assert sys.getrefcount(block) > before
            await file.flush()
            assert sys.getrefcount(block) == before

    run(main())
    assert (tmp_path / "file").read_bytes() == block * 20


def test_a_fast_writer_waits_for_what_is_written(tmp_path):
    block = bytes(BLOCK)
    before = sys.getrefcount(block)

    async def main():
        most = 0
        async with ayafileio.open(tmp_path / "file", "wb") as file:
            for _ in range(1000):
                await file.write(block)
                most = max(most, sys.getrefcount(block) - before)
        return most * BLOCK

    most = run(main())
    assert 0 < most <= 9 << 20  # two runs of 4 MiB, and what the command itself has
    assert (tmp_path / "file").stat().st_size == 1000 * BLOCK


def test_what_is_written_may_be_changed_behind_its_await(tmp_path):
    async def main():
        data = bytearray(b"a" * 50_000)
        view = memoryview(data).toreadonly()
        async with ayafileio.open(tmp_path / "file", "wb") as file:
            await file.write(data)
            data[:] = b"b" * 50_000
            await file.write(view)
            data[:] = b"c" * 50_000
            await file.writelines([data, view])
            data[:] = b"d" * 50_000

    run(main())
    letters = [b"a", b"b", b"c", b"c"]
    assert (tmp_path / "file").read_bytes() == b"".join(one * 50_000 for one in letters)


@pytest.mark.parametrize("mode", ["wb", "ab", "w+b", "r+b"])
@pytest.mark.parametrize("seed", range(3))
def test_sizes_of_all_kinds_in_turn(tmp_path, mode, seed):
    """Small and large, kept, copied and direct, with what has to settle them in between."""
    chance = random.Random(seed)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    steps = []
    for _ in range(120):
        size = chance.choice([1, 70, 8192, 16383, 16384, 40_000, BLOCK, BLOCK + 1, 200_000])
        kind = chance.choice([bytes, bytes, bytes, bytearray])
        steps.append(("write", (kind(chance.randbytes(size)),)))
        if chance.random() < 0.2:
            other = [("flush", ()), ("tell", ())]
            if mode != "ab":
                other += [("seek", (chance.randrange(300_000),)), ("truncate", ())]
            if "+" in mode:
                other.append(("read", (chance.randrange(100_000),)))
            steps.append(chance.choice(other))
    for path in (theirs, ours):
        path.write_bytes(b"start")
    with open(theirs, mode) as file:
        expected = [getattr(file, name)(*given) for name, given in steps]

    async def main():
        async with ayafileio.open(ours, mode) as file:
            return [await getattr(file, name)(*given) for name, given in steps]

    got = run(main())
    for one, other, (name, _) in zip(got, expected, steps):
        assert one == other, name
    assert ours.read_bytes() == theirs.read_bytes()


def test_text_is_kept_likewise(tmp_path):
    texts = ["x" * 30_000, "\N{EURO SIGN}" * 20_000, "y", "\xe9" * 20_000]

    async def main():
        async with ayafileio.open(tmp_path / "file", "w", encoding="utf-8") as file:
            for _ in range(40):
                for text in texts:
                    assert await file.write(text) == len(text)

    run(main())
    assert (tmp_path / "file").read_text(encoding="utf-8") == "".join(texts) * 40


def test_an_error_of_what_was_accepted_is_seen_and_the_bytes_stay(tmp_path):
    """The size limit lets 100,000 bytes through: later calls say so until it is raised."""
    block = random.Random(2).randbytes(40_000)
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    async def main():
        file = await ayafileio.open(tmp_path / "file", "wb")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        accepted = 0
        try:
            with pytest.raises(OSError, match="File too large"):
                for _ in range(10):
                    await file.write(block)
                    accepted += 1
                    await asyncio.sleep(0.01)
            for _ in range(2):
                with pytest.raises(OSError, match="File too large"):
                    await file.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        await file.flush()
        assert (tmp_path / "file").read_bytes() == block * accepted
        await file.write(b"end")
        await file.close()
        return accepted

    try:
        accepted = run(main())
    finally:
        signal.signal(signal.SIGXFSZ, handler)
    assert accepted >= 2
    assert (tmp_path / "file").read_bytes() == block * accepted + b"end"


def test_a_cancelled_wait_loses_nothing(tmp_path):
    blocks = [bytes([i]) * BLOCK for i in range(200)]

    async def main():
        cancelled = 0
        async with ayafileio.open(tmp_path / "file", "wb") as file:
            for block in blocks:
                operation = file.write(block)
                if not operation.done():
                    cancelled += operation.cancel()
        return cancelled

    assert run(main()) > 0
    assert (tmp_path / "file").read_bytes() == b"".join(blocks)
