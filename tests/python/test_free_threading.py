"""Threads with a loop each, on files of their own and on one that they share: every byte is right.

In a build of CPython without the GIL they run at the same time; with it they are plain tests of
threads. ./dev test runs the whole suite also under the interpreter that AYA_FT_PYTHON names.
"""

import asyncio
import os
import random
import subprocess
import sys
import sysconfig
import threading
import time

import ayafileio
import pytest

THREADS = 4
RECORD = 64
RECORDS = 4000


def record(number):
    return (b"%08d" % number).ljust(RECORD - 1, b".") + b"\n"


def in_threads(count, main, limit=120.0):
    """Runs main(number) in so many threads, each in a loop of its own, begun at the same time; what
    they returned."""
    results, errors = [None] * count, []
    begin = threading.Barrier(count)

    def run(number):
        try:
            begin.wait(limit)
            results[number] = asyncio.run(main(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"not finished after {limit} s"
    return results


def opened(path, mode, **options):
    """A file whose opener's loop is over."""

    async def main():
        return await ayafileio.open(path, mode, **options)

    return asyncio.run(main())


def closed(file):
    async def main():
        await file.close()

    asyncio.run(main())


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"".join(record(n) for n in range(RECORDS)))
    return path


def test_the_gil_stays_off():
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this build of CPython has the GIL; AYA_FT_PYTHON names one without to ./dev")
    assert not sys._is_gil_enabled(), "something has turned the GIL on"
    code = "import ayafileio, sys; sys.exit(sys._is_gil_enabled())"
    env = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], env=env).returncode == 0


def test_files_of_their_own(tmp_path, backend):
    async def main(number):
        for turn in range(6):
            path = tmp_path / f"{number}-{turn}"
            expected = b"".join(record(number * 1000 + n) for n in range(500))
            async with ayafileio.open(path, "wb") as file:
                for n in range(500):
                    await file.write(record(number * 1000 + n))
            async with ayafileio.open(path, "r+b") as file:
                reads = [file.read_at(n * RECORD, RECORD) for n in range(500)]
                assert b"".join(await asyncio.gather(*reads)) == expected
                await file.write_at(RECORD, b"!" * RECORD)
                assert await file.read() == expected[:RECORD] + b"!" * RECORD + expected[128:]
            async with ayafileio.open(path, "r", encoding="utf-8") as file:
                lines = [line async for line in file]
            assert "".join(lines).encode() == path.read_bytes().replace(b"\r\n", b"\n")
            assert await ayafileio.read_bytes(path) == path.read_bytes()
            os.unlink(path)

    in_threads(THREADS, main)


def test_positioned_reads_of_one_file(records, backend):
    file = opened(records, "rb")

    async def main(number):
        chance = random.Random(number)
        for _ in range(60):
            places = [chance.randrange(RECORDS) for _ in range(50)]
            reads = [file.read_at(place * RECORD, RECORD) for place in places]
            assert await asyncio.gather(*reads) == [record(place) for place in places]
            spans = [(place * RECORD, RECORD) for place in places]
            assert await file.read_many(spans) == [record(place) for place in places]

    in_threads(THREADS, main)
    closed(file)


def test_positioned_writes_to_one_file(tmp_path, backend):
    path = tmp_path / "written"
    file = opened(path, "w+b")

    async def main(number):
        for first in range(0, RECORDS // THREADS, 50):
            mine = [(first + n) * THREADS + number for n in range(50)]
            await asyncio.gather(*[file.write_at(n * RECORD, record(n)) for n in mine])
            assert await file.read_at(mine[0] * RECORD, RECORD) == record(mine[0])

    in_threads(THREADS, main)
    closed(file)
    whole = RECORDS // THREADS // 50 * 50 * THREADS
    assert path.read_bytes() == b"".join(record(n) for n in range(whole))


@pytest.mark.parametrize("buffering", [-1, 0])
def test_reads_at_one_position_give_each_record_once(records, backend, buffering):
    file = opened(records, "rb", buffering=buffering)

    async def main(number):
        got = []
        while True:
            data = await file.read(RECORD)
            if not data:
                return got
            got.append(data)

    parts = in_threads(THREADS, main)
    closed(file)
    assert sorted(sum(parts, [])) == [record(n) for n in range(RECORDS)]


def test_lines_of_one_text_file_come_once(records, backend):
    file = opened(records, "r", encoding="utf-8", newline="\n")

    async def main(number):
        return [line async for line in file]

    parts = in_threads(THREADS, main)
    closed(file)
    assert sorted(sum(parts, [])) == [record(n).decode() for n in range(RECORDS)]


@pytest.mark.parametrize("text", [False, True])
def test_writes_at_one_position_are_whole(tmp_path, backend, text):
    path = tmp_path / "written"
    file = opened(path, "w", encoding="utf-8", newline="\n") if text else opened(path, "wb")

    async def main(number):
        for n in range(number, RECORDS, THREADS):
            data = record(n)
            await file.write(data.decode() if text else data)
            if n % 97 == 0:
                await file.flush()

    in_threads(THREADS, main)
    closed(file)
    content = path.read_bytes()
    got = [content[at : at + RECORD] for at in range(0, len(content), RECORD)]
    assert sorted(got) == [record(n) for n in range(RECORDS)]


def test_large_writes_behind_keep_their_bytes(tmp_path, backend):
    path = tmp_path / "written"
    file = opened(path, "wb")
    block = 100_000

    async def main(number):
        for n in range(20):
            await file.write(bytes([number * 20 + n]) * block)

    in_threads(THREADS, main)
    closed(file)
    content = path.read_bytes()
    blocks = [content[at : at + block] for at in range(0, len(content), block)]
    assert sorted(blocks) == [bytes([n]) * block for n in range(THREADS * 20)]


def test_seek_read_write_and_the_rest_on_one_file(records, backend):
    file = opened(records, "r+b")

    async def main(number):
        chance = random.Random(number)
        for _ in range(300):
            match chance.randrange(8):
                case 0 | 1:
                    assert await file.seek(chance.randrange(RECORDS) * RECORD) % RECORD == 0
                case 2 | 3:
                    # All write what is there, so that only what is torn differs.
                    data = await file.read(RECORD)
                    assert data in (b"", record(int(data[:8] or b"0")))
                case 4:
                    place = chance.randrange(RECORDS)
                    await file.write_at(place * RECORD, record(place))
                case 5:
                    assert await file.tell() % RECORD == 0
                case 6:
                    await file.flush()
                    assert file.fileno() >= 0 and not file.closed
                case 7:
                    assert (await file.stat()).st_size == RECORDS * RECORD

    in_threads(THREADS, main)
    closed(file)
    assert records.read_bytes() == b"".join(record(n) for n in range(RECORDS))


def test_a_file_closed_under_its_readers_never_gives_another_ones_bytes(records, tmp_path, backend):
    other = tmp_path / "other"
    other.write_bytes(b"?" * (RECORD * RECORDS))
    files = [opened(records, "rb") for _ in range(30)]

    async def main(number):
        chance = random.Random(number)
        refused = 0
        for file in files:
            if number == 0:
                await asyncio.sleep(0.002)
                await file.close()
                # Its descriptor's number goes to these.
                opens = [ayafileio.open(other, "rb") for _ in range(4)]
                for one in opens:
                    await one.read_at(0, 10)
                    await one.close()
                continue
            while True:
                place = chance.randrange(RECORDS)
                try:
                    if chance.randrange(2):
                        assert await file.read_at(place * RECORD, RECORD) == record(place)
                    else:
                        data = await file.read(RECORD)
                        assert data in (b"", record(int(data[:8] or b"0")))
                        await file.seek(0)
                except ValueError as error:
                    assert "closed" in str(error)
                    refused += 1
                    break
        return refused

    refused = in_threads(THREADS, main)
    assert refused[1:] == [len(files)] * (THREADS - 1)


def test_loops_that_come_and_go_share_a_file(records, backend):
    file = opened(records, "rb")
    ends = threading.Event()

    async def short():
        assert await file.read_at(RECORD, RECORD) == record(1)
        await asyncio.gather(*[file.read_at(n * RECORD, RECORD) for n in range(20)])

    async def main(number):
        if number == 0:
            while not ends.is_set():
                ayafileio.stats()
                ayafileio.configure({"close_timeout_ms": 4000})
                await asyncio.sleep(0)
        else:
            try:
                for _ in range(15):
                    await asyncio.to_thread(asyncio.run, short())
                    await short()
            finally:
                if number == 1:
                    ends.set()

    in_threads(THREADS, main)
    closed(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_cancel_from_another_thread_is_carried_out_by_the_loop(tmp_path, backend):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    keeps_open = os.open(path, os.O_RDWR)

    async def main():
        async with ayafileio.open(path, "rb", buffering=0) as file:
            for _ in range(20):
                reading = file.read(10)
                canceller = threading.Thread(target=reading.cancel)
                canceller.start()
                with pytest.raises(asyncio.CancelledError):
                    await reading
                canceller.join()

    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        os.close(keeps_open)
        pytest.skip("with the GIL a cancel is left to the loop's thread, as that of a future is")
    asyncio.run(asyncio.wait_for(main(), 20))
    os.close(keeps_open)


def test_an_operation_is_looked_at_by_other_threads(records, backend):
    file = opened(records, "rb")
    shown = [None]
    ends = threading.Event()

    async def main(number):
        if number == 0:
            try:
                for n in range(2000):
                    shown[0] = reading = file.read_at(n * RECORD, RECORD)
                    assert await reading == record(n)
            finally:
                ends.set()
            return
        while not ends.is_set():
            operation = shown[0]
            if operation is not None and operation.done():
                assert len(operation.result()) == RECORD and operation.exception() is None
            repr(operation)

    in_threads(3, main)
    closed(file)
