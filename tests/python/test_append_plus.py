"""A file that is read and appended to is io.BufferedRandom, call by call: what a read after an
unflushed write gives, what is written when reads lie between two writes, and where both go on."""

import asyncio
import gc
import os
import random

import pytest

import ayafileio
from support import run

START = b"line one\nline two\n\nlonger line three without end"
SIZES = (0, 1, 3, 7, 8, 9, 16, 40, 100, 4096, 5000, 9000, -1)


def data(rng):
    return bytes(rng.choices(b"ab\ncd\n", k=rng.choice((0, 1, 5, 8, 16, 17, 40, 4095, 4096, 5000))))


EXTENTS = [getattr(os, name) for name in ("SEEK_DATA", "SEEK_HOLE") if hasattr(os, name)]


def make_seek(rng):
    whence = rng.choice((0, 0, 0, 1, 1, 2, 2, *EXTENTS))
    return rng.randint(0 if whence == 0 else -20, rng.choice((60, 60, 9000))), whence


STEPS = {
    "read": lambda rng: (rng.choice(SIZES),),
    "read1": lambda rng: (rng.choice(SIZES),),
    "readline": lambda rng: (rng.choice(SIZES),),
    "readlines": lambda rng: (rng.choice((-1, 5, 20)),),
    "readinto": lambda rng: (bytearray(rng.choice(SIZES[1:-1])),),
    "readinto1": lambda rng: (bytearray(rng.choice(SIZES[1:-1])),),
    "peek": lambda rng: (),
    "write": lambda rng: (data(rng),),
    "writelines": lambda rng: ([data(rng) for _ in range(rng.randint(0, 3))],),
    "seek": make_seek,
    "tell": lambda rng: (),
    "flush": lambda rng: (),
    "truncate": lambda rng: (rng.choice((None, 5, 30, 60)),),
}
NAMES = (*STEPS, "read", "write", "write", "seek", "seek", "seek")


def program(rng, count, names=NAMES):
    chosen = (rng.choice(names) for _ in range(count))
    return [(name, STEPS[name](rng)) for name in chosen]


def shown(steps):
    return [
        (name, *(len(a) if isinstance(a, (bytes, bytearray)) else a for a in given))
        for name, given in steps
    ]


def copied(given):
    return tuple(bytearray(a) if isinstance(a, bytearray) else a for a in given)


def outcome(value, given):
    return value, *(bytes(a) for a in given if isinstance(a, bytearray))


def plain_step(file, name, given):
    given = copied(given)
    try:
        return outcome(getattr(file, name)(*given), given)
    except (OSError, ValueError) as error:
        return type(error)


async def own_step(file, name, given):
    given = copied(given)
    try:
        return outcome(await getattr(file, name)(*given), given)
    except (OSError, ValueError) as error:
        return type(error)


def two_files(tmp_path, content):
    paths = tmp_path / "theirs", tmp_path / "ours"
    for path in paths:
        path.write_bytes(content)
    return paths


async def compare(plain, file, steps, seed):
    for index, (name, given) in enumerate(steps):
        expected = plain_step(plain, name, given), plain.tell(), os.fstat(plain.fileno()).st_size
        got = (
            await own_step(file, name, given),
            await file.tell(),
            os.fstat(file.fileno()).st_size,
        )
        assert got == expected, f"seed {seed}: {shown(steps[: index + 1])}"


@pytest.mark.parametrize("buffering", [-1, 8, 17, 100])
def test_each_call_equals_the_built_in(backend, tmp_path, buffering):
    async def main():
        for seed in range(60):
            rng = random.Random(f"{buffering} {seed}")
            theirs, ours = two_files(tmp_path, START * rng.choice((1, 1, 1, 100)))
            steps = program(rng, rng.choice((8, 25, 60)))
            with open(theirs, "a+b", buffering) as plain:
                async with ayafileio.open(ours, "a+b", buffering=buffering) as file:
                    await compare(plain, file, steps, seed)
            assert ours.read_bytes() == theirs.read_bytes(), f"seed {seed}: {shown(steps)}"

    run(main())


def test_a_borrowed_appending_descriptor_equals_the_built_in(tmp_path):
    async def main():
        for seed in range(30):
            rng = random.Random(seed)
            theirs, ours = two_files(tmp_path, START)
            fds = [os.open(path, os.O_RDWR | os.O_APPEND) for path in (theirs, ours)]
            os.lseek(fds[0], 7, os.SEEK_SET)
            os.lseek(fds[1], 7, os.SEEK_SET)
            with open(fds[0], "r+b", closefd=False) as plain:
                async with ayafileio.open(fds[1], "r+b", closefd=False) as file:
                    await compare(plain, file, program(rng, 25), seed)
            assert os.lseek(fds[1], 0, os.SEEK_CUR) == os.lseek(fds[0], 0, os.SEEK_CUR), seed
            assert ours.read_bytes() == theirs.read_bytes(), seed
            os.close(fds[0])
            os.close(fds[1])

    run(main())


TEXT_STEPS = {
    "read": lambda rng: (rng.choice((0, 1, 3, 10, 100, 5000, -1)),),
    "readline": lambda rng: (rng.choice((-1, -1, 0, 3, 20)),),
    "readlines": lambda rng: (),
    "write": lambda rng: ("".join(rng.choices("ab\ncö€\n", k=rng.choice((0, 1, 5, 40, 5000)))),),
    "seek": lambda rng: rng.choice(((0, 0), (0, 2), (5, 0), (9, 0))),
    "tell": lambda rng: (),
    "flush": lambda rng: (),
}
TEXT_NAMES = (*TEXT_STEPS, "read", "read", "write", "write", "readline")


def test_each_call_of_a_text_file_equals_the_built_in(tmp_path):
    async def main():
        for seed in range(120):
            rng = random.Random(seed)
            how = {"encoding": "utf-8", "newline": rng.choice((None, "", "\n", "\r\n"))}
            theirs, ours = two_files(tmp_path, START * rng.choice((1, 1, 300)))
            done = []
            with open(theirs, "a+", **how) as plain:
                async with ayafileio.open(ours, "a+", **how) as file:
                    for _ in range(rng.choice((10, 40))):
                        name = rng.choice(TEXT_NAMES)
                        given = TEXT_STEPS[name](rng)
                        done.append((name, given))
                        expected = plain_step(plain, name, given)
                        got = await own_step(file, name, given)
                        if name == "readlines" and expected is UnicodeDecodeError:
                            break  # the built-in then refuses tell()
                        assert got == expected, f"seed {seed}, {how}: {done}"
            assert ours.read_bytes() == theirs.read_bytes(), f"seed {seed}: {done}"

    run(main())


def test_a_cancelled_read_changes_nothing(backend, tmp_path):
    """Also where it waited for what was written before: that is written all the same."""
    names = ("read", "read", "readline", "read1", "peek", "write", "write", "seek", "tell")

    async def main():
        cancelled = 0
        for seed in range(50 if backend == "iocp" else 150):
            rng = random.Random(seed)
            theirs, ours = two_files(tmp_path, START)
            with open(theirs, "a+b") as plain:
                async with ayafileio.open(ours, "a+b") as file:
                    for step in program(rng, 25, names):
                        name, given = step
                        if name.startswith(("read", "peek")) and rng.random() < 0.6:
                            operation = getattr(file, name)(*given)
                            for _ in range(rng.randint(0, 2)):
                                await asyncio.sleep(0)
                            if operation.cancel():
                                cancelled += 1
                                with pytest.raises(asyncio.CancelledError):
                                    await operation
                            else:
                                expected = getattr(plain, name)(*given)
                                assert await operation == expected, f"seed {seed}"
                                continue
                        await compare(plain, file, [step], seed)
            assert ours.read_bytes() == theirs.read_bytes(), f"seed {seed}"
        assert cancelled > 20

    run(main())


def test_what_could_not_be_written_stays_as_in_the_built_in(backend, tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    names = [n for n in NAMES if n not in ("writelines", "truncate")]

    async def limited(most, step):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        try:
            return await step()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    async def main():
        failed = 0
        for seed in range(100):
            rng = random.Random(seed)
            theirs, ours = two_files(tmp_path, START)
            buffering = rng.choice((8, 64, 4096))
            plain = open(theirs, "a+b", buffering)
            file = await ayafileio.open(ours, "a+b", buffering=buffering)
            for name, given in program(rng, 25, names):
                most = rng.choice((soft, 48, 50, 60, 100))

                async def plainly():
                    return plain_step(plain, name, given)

                expected = await limited(most, plainly)
                got = await limited(most, lambda: own_step(file, name, given))
                assert got == expected, f"seed {seed}"
                if expected is OSError and name.startswith(("read", "peek")):
                    break  # the built-in loses what the failed read had taken
                failed += expected is OSError
                assert await file.tell() == plain.tell(), f"seed {seed}, {name}"
                assert ours.stat().st_size == theirs.stat().st_size, f"seed {seed}, {name}"
            plain.close()
            await file.close()
            assert ours.read_bytes() == theirs.read_bytes(), f"seed {seed}"
        assert failed > 50

    run(main())


def test_what_was_written_arrives_when_the_file_is_dropped(tmp_path):
    path = tmp_path / "dropped"
    path.write_bytes(START)
    kept = []

    async def main():
        file = await ayafileio.open(path, "a+b")
        await file.seek(5)
        assert await file.read(3) == b"one"
        await file.write(b"XY")
        assert await file.read(4) == b"ine "
        await file.write(b"Z")
        kept.append(file)

    with pytest.warns(ResourceWarning):
        run(main())
        kept.clear()
        gc.collect()
    assert path.read_bytes() == START + b"XYine Z"
