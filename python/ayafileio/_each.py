"""Many calls of one function, with a bound on how many run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ._ayafileio import Operation

Result = TypeVar("Result")


def _report(errors: Iterable[BaseException]) -> None:
    for error in errors:
        context = {"message": "one of several operations failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


async def each(
    function: Callable[..., Coroutine[Any, Any, Result]],
    arguments: Iterable[tuple[Any, ...]],
    most: int,
) -> list[Result]:
    """Return the results of `await function(*a)` for each `a`, in order.

    At most `most` tasks draw from the one iterator. The first error cancels what is running and is
    raised when that has ended; further errors go to the loop's exception handler.
    """
    rest = enumerate(arguments)
    results: dict[int, Result] = {}
    errors: list[Exception] = []
    tasks: list[asyncio.Task[None]] = []

    async def work(drawn: tuple[int, tuple[Any, ...]] | None) -> None:
        try:
            while drawn is not None:
                index, argument = drawn
                results[index] = await function(*argument)
                drawn = next(rest, None)
        except Exception as error:
            errors.append(error)
            for task in tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    try:
        while len(tasks) < most and (drawn := next(rest, None)) is not None:
            tasks.append(asyncio.create_task(work(drawn)))
    except Exception as error:
        errors.append(error)
        for task in tasks:
            task.cancel()
    raised: Exception | None = None
    try:
        # A cancel of the caller cancels every task, and gather waits for all of them.
        await asyncio.gather(*tasks, return_exceptions=True)
        raised = errors[0] if errors else None
    finally:
        _report(error for error in errors if error is not raised)
    try:
        if raised is not None:
            raise raised
    finally:
        del raised, errors, tasks  # its traceback holds this frame
    return [results[index] for index in range(len(results))]


async def each_operation(
    start: Callable[[Any], Operation[Result]], arguments: Iterable[Any], most: int
) -> list[Result]:
    """As `each()`, of a function that starts an operation: it needs no task."""
    results: list[Any] = []
    running: dict[Operation[Result], int] = {}
    errors: list[BaseException] = []
    waiter: asyncio.Future[None] | None = None

    def ended(operation: Operation[Result]) -> None:
        index = running.pop(operation)
        if not operation.cancelled():
            error = operation.exception()
            if error is None:
                results[index] = operation.result()
            else:
                errors.append(error)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def one_less() -> None:
        nonlocal waiter
        waiter = asyncio.get_running_loop().create_future()
        await waiter

    try:
        for argument in arguments:
            operation = start(argument)
            if operation.done():
                results.append(operation.result())
                continue
            running[operation] = len(results)
            results.append(None)
            operation.add_done_callback(ended)
            while len(running) >= most and not errors:
                await one_less()
            if errors:
                break
        while running and not errors:
            await one_less()
    except BaseException as error:
        errors.insert(0, error)
    for operation in list(running):
        operation.cancel()
    while running:
        try:
            await one_less()
        except asyncio.CancelledError as error:
            errors.insert(0, error)
    _report(errors[1:])
    try:
        if errors:
            raise errors[0]
    finally:
        del errors, running  # its traceback holds this frame
    return results
