"""Nothing holds the loop: no filesystem that sleeps in every call, no FIFO nobody else opens."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import ayafileio
from support import Heartbeat, program, run

FAULT = pathlib.Path(__file__).resolve().parents[1] / "fault"
DELAY = 0.3
MOST = 0.2  # a step that waits for one call holds the heartbeat for DELAY at least

# Each step is a coroutine function; what it awaits may take its time, but the loop goes on.
STEPS = """
import gc, warnings
sys.path.insert(0, SUPPORT)
from support import Heartbeat
warnings.simplefilter("ignore")
steps = {}

def step(function):
    steps[function.__name__] = function
    return function

async def take(name):
    try:
        await asyncio.wait_for(steps[name](), 30)
    except Exception as error:
        return repr(error).replace("\\n", " ")
    return ""

async def measure():
    names = list(steps)
    for group in [names[i : i + 8] for i in range(0, len(names), 8)]:
        async with Heartbeat() as heart:
            notes = await asyncio.gather(*map(take, group))
        held = dict.fromkeys(group, 0.0)
        if heart.longest > MOST:  # one of these: alone it shows
            for name in group:
                async with Heartbeat() as heart:
                    await take(name)
                held[name] = round(heart.longest, 3)
        for name, note in zip(group, notes):
            print(name, held[name], note, sep="\\t", flush=True)
"""

SLOW = """
HERE = MOUNT + "/"
ayafileio.configure({"close_timeout_ms": 60_000})  # several large writes go on at a time

async def use(mode, call=None, name="slow", **options):
    file = await ayafileio.open(HERE + name, mode, **options)
    try:
        return None if call is None else await call(file)
    finally:
        await file.close()

def opening(mode, name="slow", **options):
    async def opens():
        await use(mode, None, name, **options)
    steps["open " + mode + (" text" if "encoding" in options else "")] = opens

for mode in ("rb", "r+b", "ab", "a+b", "wb", "w+b"):
    opening(mode)
opening("xb", "made")
opening("r", encoding="utf-8")
opening("w", encoding="utf-8")

def using(mode, **calls):
    for name, call in calls.items():
        async def uses(call=call):
            await use(mode, call)
        steps[name] = uses

async def lines(f):
    return [line async for line in f]

async def small_writes(f):
    for _ in range(5):
        await f.write(b"x" * 3000)
    await f.flush()

async def dirty_close(f):
    await f.write(b"dirty")

async def read_then_write(f):
    await f.read(10)
    await f.write(b"abc")
    await f.seek(0)
    await f.read(10)

async def blocks_behind(f):
    block = b"b" * 65536
    for _ in range(3):  # immutable: kept by reference, and written while the next ones come
        await f.write(block)

async def behind_then_read(f):
    await f.write(b"c" * 65536)
    await f.seek(0)
    await f.read(10)

async def beside(mode, call):
    async with ayafileio.open("beside", "w+b") as local:
        await local.write_at(0, b"0123456789" * 100)
        return await use(mode, lambda f: call(f, local))

async def gathered(f):
    await asyncio.gather(*[f.read_at(i * 100, 100) for i in range(20)])

using("w+b", write=small_writes, large_write=lambda f: f.write(b"y" * 300_000),
    dirty_close=dirty_close, blocks_behind=blocks_behind, behind_then_read=behind_then_read)
using("r+b",
    read=lambda f: f.read(), read_some=lambda f: f.read(100), readline=lambda f: f.readline(),
    readlines=lambda f: f.readlines(), iterate=lines, peek=lambda f: f.peek(1),
    readinto=lambda f: f.readinto(bytearray(1000)), read_at=lambda f: f.read_at(0, 100),
    read_many=lambda f: f.read_many([(0, 10), (1000, 10)]), gathered_reads=gathered,
    readinto_at=lambda f: f.readinto_at(0, bytearray(10)), write_at=lambda f: f.write_at(0, b"x"),
    write_many=lambda f: f.write_many([(0, b"x"), (100, b"y")]), seek=lambda f: f.seek(10),
    seek_end=lambda f: f.seek(0, 2), tell=lambda f: f.tell(), stat=lambda f: f.stat(),
    truncate=lambda f: f.truncate(1000), fsync=lambda f: f.fsync(),
    fdatasync=lambda f: f.fdatasync(),
    allocate=lambda f: f.allocate(0, 100), advise=lambda f: f.advise(), flush=lambda f: f.flush(),
    read_then_write=read_then_write, seek_data=lambda f: f.seek(0, os.SEEK_DATA),
    seek_hole=lambda f: f.seek(0, os.SEEK_HOLE),
    copy_inside=lambda f: f.copy_range(0, f, 40_000, 100))

@step
async def copy_range_from():
    assert await beside("rb", lambda slow, local: slow.copy_range(0, local, 0, 5000)) == 5000

@step
async def copy_range_to():
    assert await beside("r+b", lambda slow, local: local.copy_range(0, slow, 0, 1000)) == 1000

@step
async def an_opener():
    async with ayafileio.open(HERE + "slow", "r+b", opener=os.open) as file:
        await file.read(10)

@step
async def plain_attributes():
    async def look(f):
        f.seekable(), f.readable(), f.isatty(), f.fileno(), repr(f)
    await use("r+b", look)

@step
async def missing():
    try:
        await use("rb", None, "missing")
    except FileNotFoundError:
        pass

async def dropped(mode, data):
    file = await ayafileio.open(HERE + "slow", mode)
    if data:
        await file.write(data)
    del file
    gc.collect()
    await asyncio.sleep(1.5)

@step
async def dropped_clean():
    await dropped("rb", b"")

@step
async def dropped_dirty():
    await dropped("wb", b"x" * 100)

@step
async def dropped_while_opening():
    file = ayafileio.open(HERE + "slow")
    del file
    gc.collect()
    await asyncio.sleep(1)

@step
async def cancelled():
    file = await ayafileio.open(HERE + "slow")
    reading = file.read_at(0, 100)
    await asyncio.sleep(0.05)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await file.close()

@step
async def from_a_descriptor():
    loop = asyncio.get_running_loop()
    fd = await loop.run_in_executor(None, os.open, HERE + "slow", os.O_RDWR)
    file = ayafileio.wrap_file(fd, "r+b", owns_fd=True)
    await file.read(10)
    await file.close()

@step
async def whole_file_functions():
    await ayafileio.write_bytes(HERE + "short", b"text")
    assert await ayafileio.read_bytes(HERE + "short") == b"text"
    await ayafileio.write_text(HERE + "short", "text")
    assert await ayafileio.read_text(HERE + "short") == "text"
    assert await ayafileio.read_bytes_many([HERE + "short"] * 3) == [b"text"] * 3

@step
async def copy():
    await ayafileio.acopy(HERE + "slow", HERE + "copied")
    await ayafileio.acopy(HERE + "slow", "copied")
    await ayafileio.acopy("copied", HERE + "copied", copy_stat=True)

asyncio.run(measure())
"""

FIFOS = """
count = 0

def fifo():
    global count
    count += 1
    os.mkfifo(f"fifo{count}")
    return f"fifo{count}"

def opening(mode):
    async def opens():
        files = [ayafileio.open(fifo(), mode) for _ in range(10)]
        awaits = [asyncio.ensure_future(asyncio.wait_for(wait(file), 0.3)) for file in files]
        # Others go on beside them.
        async with ayafileio.open("other " + mode, "w+b") as other:  # steps run side by side
            await asyncio.wait_for(other.write_at(0, b"x"), 60)
            await asyncio.wait_for(other.fsync(), 60)
            assert await asyncio.wait_for(other.read_at(0, 1), 60) == b"x"
        ended = await asyncio.gather(*awaits, return_exceptions=True)
        assert all(isinstance(one, asyncio.TimeoutError) for one in ended), ended
        for file in files:
            await asyncio.wait_for(file.close(), 60)
    steps["open " + mode] = opens

async def wait(file):
    await file

for mode in ("rb", "wb", "r", "w", "ab"):
    opening(mode)

@step
async def both_directions_do_not_wait():
    file = await ayafileio.open(fifo(), "r+b", buffering=0)
    assert await file.write(b"x") == 1
    assert await file.read(1) == b"x"
    await file.close()

@step
async def reads_without_a_writer():
    name = fifo()
    reader = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(name, os.O_WRONLY)
    async with ayafileio.wrap_file(reader, "rb", owns_fd=True) as file:
        for _ in range(5):
            try:
                await asyncio.wait_for(file.read(1), 0.05)
            except asyncio.TimeoutError:
                pass
        os.write(writer, b"x")
        assert await file.read(1) == b"x"
    os.close(writer)

@step
async def writes_without_a_reader():
    name = fifo()
    reader = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    file = await ayafileio.open(name, "wb", buffering=0)
    writing = file.write(b"x" * 1_000_000)
    await asyncio.sleep(0.3)
    assert not writing.done()
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    ayafileio.configure({"close_timeout_ms": 300})
    try:
        await file.close()
    except TimeoutError:
        pass
    os.close(reader)

@step
async def whole_file_functions():
    for call in (ayafileio.read_bytes(fifo()), ayafileio.write_bytes(fifo(), b"x"),
                 ayafileio.read_text(fifo()), ayafileio.acopy(fifo(), "copy")):
        try:
            await asyncio.wait_for(call, 0.2)
        except (asyncio.TimeoutError, OSError):
            pass

@step
async def dropped():
    file = ayafileio.open(fifo())
    await asyncio.sleep(0.05)
    del file
    gc.collect()
    await asyncio.sleep(0.3)

asyncio.run(measure())
"""


@pytest.fixture
def slow_mount(tmp_path):
    """A folder on which every call takes DELAY seconds."""
    folder = tmp_path / "mount"
    folder.mkdir()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        pytest.skip("needs root and /dev/fuse")
    server = subprocess.Popen(
        [sys.executable, str(FAULT / "slowfs.py"), str(folder), str(DELAY)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if server.stdout.readline() != "ready\n":
        pytest.skip(f"cannot mount: {server.communicate()[1].splitlines()[-1]}")
    yield folder
    server.send_signal(signal.SIGTERM)
    server.wait(10)
    server.stdout.close()
    server.stderr.close()


def held(tmp_path, backend, body, **values):
    values["SUPPORT"] = str(pathlib.Path(__file__).parent)
    head = f"MOST = {MOST}\n" + "".join(
        f"{name} = {str(value)!r}\n" for name, value in values.items()
    )
    out = program(tmp_path, backend, head + STEPS + body, limit=240)
    lines = [line.split("\t") for line in out.splitlines()]
    assert len(lines) >= 10
    return [line for line in lines if float(line[1]) > MOST or line[2]]


def expected_refusal(line):
    """What this filesystem itself refuses."""
    return line[0] in ("allocate",) and ("Unsupported" in line[2] or "Errno 95" in line[2])


def test_a_slow_filesystem_holds_no_step(slow_mount, tmp_path, backend):
    wrong = held(tmp_path, backend, SLOW, MOUNT=slow_mount)
    assert [line for line in wrong if not expected_refusal(line)] == []


def test_a_close_that_timed_out_follows_the_write_under_way(slow_mount, tmp_path, backend):
    """It gives the descriptor back when the write has ended, and what was accepted is there."""
    out = program(tmp_path, backend, f"""
        ayafileio.configure({{"close_timeout_ms": 100}})

        def is_open(fd):
            try:
                os.readlink(f"/proc/self/fd/{{fd}}")
            except FileNotFoundError:
                return False
            return True

        async def main():
            file = await ayafileio.open({str(slow_mount / "slow")!r}, "wb")
            await asyncio.sleep(0)
            await file.write(b"b" * 65536)
            fd = file.fileno()
            try:
                await file.close()
            except TimeoutError:
                print("timeout")
            del file
            gc.collect()
            while is_open(fd):
                await asyncio.sleep(0.05)

        asyncio.run(main())
        print(open({str(slow_mount / "slow")!r}, "rb").read() == b"b" * 65536)
    """)
    assert out.split() == ["timeout", "True"]


def test_fifos_without_a_partner_hold_no_step(tmp_path, backend):
    assert held(tmp_path, backend, FIFOS) == []


def test_cached_data_leaves_every_task_its_turn(tmp_path, backend):
    """Sixty-four tasks that never have to wait are no reason for a timer to come late."""
    path = tmp_path / "cached"
    path.write_bytes(bytes(1 << 20))

    async def main():
        loop = asyncio.get_running_loop()
        async with ayafileio.open(path) as file:
            await file.read_at(0)

            async def worker(number):
                count = 0
                while loop.time() < end:
                    await file.read_at(number * 4096, 4096)
                    count += 1
                return count

            end = loop.time() + 1.5
            async with Heartbeat() as heart:
                counts = await asyncio.gather(*[worker(number) for number in range(64)])
            return heart.longest, counts

    longest, counts = run(main())
    assert longest < 0.15
    assert min(counts) > 0
