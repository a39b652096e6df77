"""Many calls of one coroutine function, with a bound on how many run at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


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
        for other in errors:
            if other is not raised:
                context = {"message": "one of several operations failed", "exception": other}
                asyncio.get_running_loop().call_exception_handler(context)
    try:
        if raised is not None:
            raise raised
    finally:
        del raised, errors, tasks  # its traceback holds this frame
    return [results[index] for index in range(len(results))]
