"""Loops end, processes fork and exit, threads share files: nothing is left behind or lost."""

import asyncio
import gc
import os
import threading

import pytest

import ayafileio
from support import LoopThread, descriptors, kernel_threads, program, run, settles

pytestmark = pytest.mark.usefixtures("backend")


def test_a_thousand_loops_leave_nothing(tmp_path, backend):
    # The kernel takes 25 ms to give back a queue of its AIO.
    rounds = 50 if backend == "linux_aio" else 1000
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")

    async def use():
        async with ayafileio.open(path, "r+b") as file:
            assert await file.read_at(3, 2) == b"34"
            await file.write_at(0, b"0")
            assert await file.read(1) == b"0"

    for _ in range(10):
        asyncio.run(use())
    files, threads = descriptors(), kernel_threads()
    for _ in range(rounds):
        asyncio.run(use())
    assert settles(descriptors, files) <= files
    assert settles(kernel_threads, threads) <= threads
    assert ayafileio.stats()["contexts"] <= 1


def test_no_python_thread_is_started(tmp_path):
    async def main():
        async with ayafileio.open(tmp_path / "f", "w+b") as file:
            await asyncio.gather(*[file.write_at(i, b"x") for i in range(100)])
            return threading.active_count()

    before = threading.active_count()
    assert run(main()) == before


def test_a_loop_that_ends_with_operations_in_flight(tmp_path, backend):
    out = program(
        tmp_path,
        backend,
        """
        for round in range(30):
            loop = asyncio.new_event_loop()
            async def start():
                file = await ayafileio.open("f", "w+b")
                out, into = os.pipe()
                pipe = ayafileio.wrap_file(out, "rb", owns_fd=True)
                kept.append((file, pipe, into))
                pending.append(pipe.read(1))
                pending.extend(file.write_at(i * 100_000, b"x" * 100_000) for i in range(20))
                pending.extend(file.read_at(0, 1_000_000) for i in range(5))
            kept, pending = [], []
            loop.run_until_complete(start())
            if round % 2:
                loop.close()
            del loop
            gc.collect()
            for file, pipe, into in kept:
                os.close(into)
            del kept, pending, file, pipe, into
            gc.collect()
        print("ended")
        """,
        flags=("-W", "ignore"),
    )
    assert out == "ended\n"


def test_a_file_is_used_under_several_loops_in_turn(tmp_path):
    path = tmp_path / "f"
    file = asyncio.run(opened(path, "w+b"))

    async def append(text):
        await file.write(text)
        return await file.read_at(0, 2)

    assert asyncio.run(append(b"ab")) == b"ab"
    assert asyncio.run(append(b"cd")) == b"ab"
    asyncio.run(file.close())
    assert path.read_bytes() == b"abcd"


async def opened(path, mode):
    return await ayafileio.open(path, mode)


def test_a_file_is_used_by_several_loops_at_once(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)) * 1000)

    async def positioned(file, base):
        for i in range(base, base + 200):
            assert await file.read_at(i, 300) == (bytes(range(256)) * 3)[i % 256 : i % 256 + 300]
        return True

    async def in_order(file):
        return [await file.read(1) for _ in range(500)]

    with LoopThread() as first, LoopThread() as second:
        file = asyncio.run_coroutine_threadsafe(opened(path, "rb"), first).result(10)
        waits = [
            asyncio.run_coroutine_threadsafe(positioned(file, n * 1000), loop)
            for n in range(4)
            for loop in (first, second)
        ]
        assert all(wait.result(30) for wait in waits)
        reads = [asyncio.run_coroutine_threadsafe(in_order(file), loop) for loop in (first, second)]
        got = [byte for read in reads for byte in read.result(30)]
        assert sorted(got) == sorted(bytes([i % 256]) for i in range(1000))
        asyncio.run_coroutine_threadsafe(file.close(), second).result(10)


def test_a_loop_in_each_of_several_threads(tmp_path):
    errors = []

    def main(number):
        async def work():
            path = tmp_path / str(number)
            async with ayafileio.open(path, "w+b") as file:
                for i in range(200):
                    await file.write(b"%d %d\n" % (number, i))
                await file.seek(0)
                assert [line async for line in file] == [
                    b"%d %d\n" % (number, i) for i in range(200)
                ]

        try:
            asyncio.run(work())
        except BaseException as error:
            errors.append(error)

    for _ in range(5):
        threads = [threading.Thread(target=main, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert errors == []


def test_fork_in_a_running_loop(tmp_path, backend):
    out = program(
        tmp_path,
        backend,
        """
        import warnings
        warnings.simplefilter("ignore")

        async def parent():
            file = await ayafileio.open("f", "w+b")
            await file.write(b"buffered by the parent\\n")
            positioned = await ayafileio.open("data", "w+b")
            await positioned.write_at(0, b"0123456789")
            child = os.fork()
            if child == 0:
                return file, positioned, None
            await file.write(b"and more\\n")
            await file.close()
            assert await positioned.read_at(2, 3) == b"234"
            _, status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, child, 0)
            return file, positioned, status

        loop = asyncio.new_event_loop()
        file, positioned, status = loop.run_until_complete(parent())
        if status is None:
            async def in_child():
                assert await positioned.read_at(4, 3) == b"456"
                async with ayafileio.open("child", "wb") as own:
                    await own.write(b"of the child")
                await file.close()
                await positioned.close()
            asyncio.set_event_loop(None)
            asyncio._set_running_loop(None)
            asyncio.run(asyncio.wait_for(in_child(), 20))
            os._exit(0)
        assert status == 0, status
        print(open("f").read() + open("child").read())
        loop.run_until_complete(positioned.close())
        loop.close()
        """,
        limit=60,
    )
    assert out == "buffered by the parent\nand more\nof the child\n"


def test_multiprocessing_by_fork(tmp_path, backend):
    out = program(
        tmp_path,
        backend,
        """
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        context = multiprocessing.get_context("fork")

        async def use(name):
            async with ayafileio.open(name, "w+b") as file:
                await file.write(name.encode())
                return await file.read_at(0)

        def child(name, queue):
            queue.put(asyncio.run(use(name)))

        asyncio.run(use("warm"))
        queue = context.Queue()
        children = [context.Process(target=child, args=(f"c{i}", queue)) for i in range(4)]
        for one in children: one.start()
        print(sorted(queue.get(timeout=20) for _ in children))
        for one in children: one.join(20)
        print([one.exitcode for one in children], asyncio.run(use("again")))
        """,
    )
    assert out == "[b'c0', b'c1', b'c2', b'c3']\n[0, 0, 0, 0] b'again'\n"


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "loop.close()", "del file; gc.collect()"])
def test_buffered_data_is_written_at_exit(tmp_path, backend, end):
    program(
        tmp_path,
        backend,
        f"""
        async def main():
            file = await ayafileio.open("f", "wb")
            await file.write(b"written at exit")
            return file
        loop = asyncio.new_event_loop()
        file = loop.run_until_complete(main())
        {end}
        """,
        flags=("-W", "ignore"),
    )
    assert (tmp_path / "f").read_bytes() == b"written at exit"


def test_exit_with_operations_in_flight_is_quick(tmp_path, backend):
    program(
        tmp_path,
        backend,
        """
        async def main():
            out, into = os.pipe()
            pipe = ayafileio.wrap_file(out, "rb", owns_fd=True)
            os.mkfifo("fifo")
            return pipe, into, pipe.read(1), ayafileio.open("fifo").read(1)
        loop = asyncio.new_event_loop()
        kept = loop.run_until_complete(main())
        """,
        limit=20,
        flags=("-W", "ignore"),
    )


def test_keyboard_interrupt_ends_a_run(tmp_path, backend):
    out = program(
        tmp_path,
        backend,
        """
        import signal
        async def main():
            out, into = os.pipe()
            async with ayafileio.wrap_file(out, "rb", owns_fd=True) as pipe:
                asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
                await pipe.read(1)
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        """,
        limit=20,
    )
    assert out == "interrupted\n"


def test_debug_mode_is_quiet(tmp_path, backend):
    program(
        tmp_path,
        backend,
        """
        async def main():
            async with ayafileio.open("f", "w+b") as file:
                await asyncio.gather(*[file.write(b"x" * 1000) for _ in range(50)])
                await file.seek(0)
                assert len(await file.read()) == 50_000
        asyncio.run(main(), debug=True)
        gc.collect()
        """,
        flags=("-X", "dev", "-W", "error"),
    )
    assert program.stderr == ""


def test_references_of_a_loop_end_with_it(tmp_path):
    import weakref

    async def main():
        async with ayafileio.open(tmp_path / "f", "w+b") as file:
            await file.write_at(0, b"x")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    gone = weakref.ref(loop)
    loop.close()
    del loop
    gc.collect()
    assert gone() is None


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """As the proactor loop of Windows: nothing can be watched from outside."""

    def add_reader(self, fd, callback, *args):
        raise NotImplementedError


def test_a_loop_without_readers(tmp_path):
    path = tmp_path / "f"
    threads = kernel_threads()

    async def use():
        path.write_bytes(bytes(range(256)))
        async with ayafileio.open(path, "r+b") as file:
            got = await asyncio.gather(*[file.read_at(i % 256, 1) for i in range(2000)])
            assert got == [bytes([i % 256]) for i in range(2000)]
            await file.fsync()
            for i in range(200):
                await file.write_at(i, b"x")
        end, other = os.pipe()
        async with ayafileio.open(end, "rb", buffering=0) as pipe:
            reading = asyncio.ensure_future(pipe.read(10))
            await asyncio.sleep(0.01)
            assert not reading.done()
            os.write(other, b"late")
            assert await asyncio.wait_for(reading, 10) == b"late"
        os.close(other)

    for closes in [True] * 20 + [False] * 5:
        loop = LoopWithoutReaders()
        loop.run_until_complete(asyncio.wait_for(use(), 30))
        if closes:
            loop.close()
        del loop
    gc.collect()

    async def last():
        async with ayafileio.open(path, "rb") as file:
            await file.read(1)

    asyncio.run(last())
    assert settles(kernel_threads, threads + 8) <= threads + 8
