"""Operation is a Future and a Coroutine at once: whatever takes one of them takes it."""

import asyncio
import collections.abc
import contextvars
import gc
import inspect
import io
import os
import sys

import pytest

import ayafileio
from support import LoopThread, run

pytestmark = pytest.mark.usefixtures("backend")


class Files:
    """The files that operations of the matrix are made on."""

    def __init__(self, path):
        self.path = path

    async def __aenter__(self):
        self.reader = await ayafileio.open(self.path, "rb")
        self.writer = await ayafileio.open(self.path, "r+b")
        await self.reader.read_at(0, 10)
        out, into = os.pipe()
        self.into = os.fdopen(into, "wb", buffering=0)
        self.pipe = ayafileio.wrap_file(out, "rb", owns_fd=True)
        return self

    async def __aexit__(self, *_):
        self.into.close()
        for file in (self.reader, self.writer, self.pipe):
            await file.close()


def cached(files):
    return files.reader.read_at(3, 4), b"3456"


def durable(files):
    return files.writer.fsync(), None


def later(files):
    asyncio.get_running_loop().call_later(0.01, files.into.write, b"late")
    return files.pipe.read(4), b"late"


def refused(files):
    return files.reader.write_at(0, b"x"), io.UnsupportedOperation


def failing(files):
    return files.pipe.fsync(), OSError


MAKERS = [cached, durable, later, refused, failing]


async def by_await(operation):
    return await operation


async def by_gather(operation):
    return (await asyncio.gather(operation))[0]


async def by_task(operation):
    return await asyncio.create_task(operation)


async def by_ensure_future(operation):
    assert asyncio.ensure_future(operation) is operation
    return await operation


async def by_task_group(operation):
    if sys.version_info < (3, 11):
        pytest.skip("asyncio.TaskGroup came with 3.11")
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(operation)
    except BaseExceptionGroup as errors:  # noqa: F821
        raise errors.exceptions[0]
    return task.result()


async def by_wait_for(operation):
    return await asyncio.wait_for(operation, 60)


async def by_shield(operation):
    return await asyncio.shield(operation)


async def by_as_completed(operation):
    for one in asyncio.as_completed([operation]):
        return await one


async def by_wait(operation):
    task = asyncio.create_task(operation)
    done, pending = await asyncio.wait([task], timeout=5)
    assert done == {task} and not pending
    return task.result()


async def by_callback(operation):
    called = asyncio.get_running_loop().create_future()
    operation.add_done_callback(called.set_result)
    assert await called is operation
    return operation.result()


async def by_anyio(operation):
    anyio = pytest.importorskip("anyio")
    results = []

    async def keep():
        try:
            results.append(await operation)
        except Exception as error:
            results.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(keep)
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


WAYS = [
    by_await,
    by_gather,
    by_task,
    by_ensure_future,
    by_task_group,
    by_wait_for,
    by_shield,
    by_as_completed,
    by_wait,
    by_callback,
    by_anyio,
]


async def check(make, way, path):
    async with Files(path) as files:
        operation, expected = make(files)
        if isinstance(expected, type):
            with pytest.raises(expected):
                await way(operation)
        else:
            assert await way(operation) == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", MAKERS)
def test_every_way_of_waiting(make, way, digits):
    run(check(make, way, digits))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("way", [by_await, by_gather, by_task, by_wait_for, by_shield])
def test_uvloop(make, way, digits):
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(check(make, way, digits), 120))
    finally:
        loop.close()


def test_anyio_starts_methods_and_cancels(digits):
    anyio = pytest.importorskip("anyio")

    async def main():
        async with Files(digits) as files:
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(files.reader.read_at, 0, 4)
            with anyio.move_on_after(0.05) as scope:
                await files.pipe.read(1)
            assert scope.cancelled_caught
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.05):
                    await files.pipe.read(1)
            files.into.write(b"z")
            assert await files.pipe.read(1) == b"z"

    run(main())


def test_asyncio_run_takes_it_for_a_coroutine(digits):
    file = ayafileio.open(digits)
    operation = file.read_at(3, 4)
    assert asyncio.iscoroutine(operation)
    assert asyncio.run(operation) == b"3456"
    assert asyncio.run(file.read(2)) == b"01"
    assert asyncio.run(file.read(2)) == b"23"
    asyncio.run(file.close())
    with pytest.raises(ValueError):
        asyncio.run(file.read())


def test_run_until_complete_and_coroutine_threadsafe(digits):
    loop = asyncio.new_event_loop()
    try:
        file = loop.run_until_complete(ayafileio.open(digits))
        assert loop.run_until_complete(file.read_at(0, 3)) == b"012"
        loop.run_until_complete(file.close())
    finally:
        loop.close()
    with LoopThread() as loop:
        file = ayafileio.open(digits)
        read = asyncio.run_coroutine_threadsafe(file.read_at(5, 2), loop)
        assert read.result(10) == b"56"
        asyncio.run_coroutine_threadsafe(file.close(), loop).result(10)


def test_never_started_operation_does_nothing(digits):
    file = ayafileio.open(digits, "r+b")
    file.write_at(0, b"XXX").close()
    asyncio.run(file.close())
    assert digits.read_bytes() == b"0123456789"


def test_refused_under_another_loop(digits):
    async def main():
        async with Files(digits) as files:
            pending = files.pipe.read(1)

            def elsewhere():
                async def wait():
                    await pending

                return asyncio.run(wait())

            with pytest.raises(RuntimeError):
                await asyncio.get_running_loop().run_in_executor(None, elsewhere)
            files.into.write(b"!")
            assert await pending == b"!"

    run(main())


def test_is_what_tools_look_at(digits):
    async def main():
        async with Files(digits) as files:
            pending = files.pipe.read(1)
            assert isinstance(pending, collections.abc.Coroutine)
            assert asyncio.isfuture(pending)
            assert inspect.isawaitable(pending)
            assert isinstance(pending, ayafileio.Operation)
            assert pending.get_loop() is asyncio.get_running_loop()
            assert pending.__name__ == "read" and pending.__qualname__.endswith("read")
            assert (pending.done(), pending.cancelled()) == (False, False)
            for early in (pending.result, pending.exception):
                with pytest.raises(asyncio.InvalidStateError):
                    early()
            files.into.write(b"a")
            await pending
            assert (pending.done(), pending.cancelled()) == (True, False)
            assert pending.result() == b"a" and pending.exception() is None
            assert not pending.cancel()
            assert not inspect.iscoroutinefunction(files.reader.read)
            failed = files.reader.write_at(0, b"x")
            while not failed.done():
                await asyncio.sleep(0)
            assert isinstance(failed.exception(), io.UnsupportedOperation)
            with pytest.raises(io.UnsupportedOperation):
                failed.result()

    run(main())


def test_a_finished_await_takes_no_turn_of_the_loop(digits):
    with open(digits, "rb") as plain:
        plain.read()
        try:
            os.preadv(plain.fileno(), [bytearray(4)], 0, os.RWF_NOWAIT)
        except OSError as error:
            pytest.skip(f"this filesystem has no RWF_NOWAIT: {error}")

    async def read(file):
        return await file.read_at(3, 4)

    async def main():
        async with ayafileio.open(digits) as file:
            await file.read_at(0, 4)
            await asyncio.sleep(0)
            with pytest.raises(StopIteration) as ended:
                read(file).send(None)
            assert ended.value.value == b"3456"

    run(main())


def test_gather_makes_no_task(digits):
    made = []

    def factory(loop, coroutine, **options):
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def main():
        async with ayafileio.open(digits) as file:
            asyncio.get_running_loop().set_task_factory(factory)
            read = await asyncio.gather(*[file.read_at(i % 10, 1) for i in range(500)])
            assert read == [b"%d" % (i % 10) for i in range(500)]
        assert made == []

    run(main())


def test_cancel_keeps_its_message(digits):
    async def main():
        async with Files(digits) as files:
            pending = files.pipe.read(1)
            assert pending.cancel("enough")
            with pytest.raises(asyncio.CancelledError) as caught:
                await pending
            assert caught.value.args == ("enough",)
            assert pending.cancelled() and not pending.cancel()
            with pytest.raises(asyncio.CancelledError):
                pending.result()
            task = asyncio.create_task(files.pipe.read(1))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())


def test_throw_and_close(digits):
    async def main():
        async with Files(digits) as files:
            pending = files.pipe.read(1)
            assert pending.send(None) is pending
            with pytest.raises(KeyError):
                pending.throw(KeyError("thrown"))
            pending.close()
            files.into.write(b"k")
            assert await files.pipe.read(1) == b"k"

    run(main())


def test_callbacks(digits):
    variable = contextvars.ContextVar("variable", default="outer")
    seen, reports = [], []

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, what: reports.append(what))
        async with Files(digits) as files:
            pending = files.pipe.read(1)
            context = contextvars.copy_context()
            context.run(variable.set, "inner")

            def removed(_):
                seen.append("removed")

            def broken(_):
                raise KeyError("callback")

            pending.add_done_callback(lambda _: seen.append(variable.get()), context=context)
            pending.add_done_callback(removed)
            pending.add_done_callback(removed)
            pending.add_done_callback(broken)
            pending.add_done_callback(lambda _: seen.append(variable.get()))
            assert pending.remove_done_callback(removed) == 2
            files.into.write(b"a")
            await pending
            for _ in range(3):
                await asyncio.sleep(0)
            assert seen == ["inner", "outer"]
            assert [type(what["exception"]) for what in reports] == [KeyError]
            pending.add_done_callback(lambda done: seen.append(done.result()))
            assert len(seen) == 2, "a callback of a finished operation comes in a later turn"
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert seen[-1] == b"a"

    run(main())


def test_an_error_that_nobody_retrieves_is_reported(digits):
    reports = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, what: reports.append(what))
        async with Files(digits) as files:
            for make in (refused, failing):
                operation, expected = make(files)
                while not operation.done():
                    await asyncio.sleep(0)
                del operation
                gc.collect()
                await asyncio.sleep(0)
                (report,) = reports
                assert isinstance(report["exception"], expected)
                assert "never retrieved" in report["message"]
                reports.clear()
            operation, _ = failing(files)
            await asyncio.gather(operation, return_exceptions=True)
            cancelled = files.pipe.read(1)
            cancelled.cancel()
            await asyncio.sleep(0.01)
            del operation, cancelled
            gc.collect()
            await asyncio.sleep(0)
            assert reports == []

    run(main())


def test_awaited_twice_gives_the_result_twice(digits):
    async def main():
        async with Files(digits) as files:
            for make in (cached, later):
                operation, expected = make(files)
                assert await operation == expected
                assert await operation == expected

    run(main())


def test_several_tasks_wait_for_one_operation(digits):
    async def main():
        async with Files(digits) as files:
            operation, expected = later(files)

            async def wait():
                return await operation

            assert await asyncio.gather(*[wait() for _ in range(5)]) == [expected] * 5

    run(main())


def test_wait_for_gives_up_in_time(digits):
    async def main():
        async with Files(digits) as files:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(files.pipe.read(1), 0.05)
            assert loop.time() - begin < 2
            files.into.write(b"q")
            assert await files.pipe.read(1) == b"q"

    run(main())


def test_many_at_once(digits):
    async def main():
        async with ayafileio.open(digits) as file:
            read = await asyncio.gather(*[file.read_at(i % 10, 2) for i in range(20_000)])
            assert read == [b"0123456789"[i % 10 : i % 10 + 2] for i in range(20_000)]

    run(main())
