"""Helpers of the Python tests (standard library only): runs with a time limit, programs of their
own, counts of what a process holds, and a heartbeat that tells how long a loop was held."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

BACKENDS = ("io_uring", "threads", "linux_aio")


def run(coroutine, limit=300.0):
    """The coroutine's result under asyncio.run(); AssertionError when it takes over `limit` s: it
    hangs. Under Wine a busy machine needs a minute for what takes a second elsewhere."""

    async def main():
        task = asyncio.ensure_future(coroutine)
        done, _ = await asyncio.wait([task], timeout=limit)
        if not done:
            task.cancel()
            raise AssertionError(f"not finished after {limit} s: {task!r}")
        return task.result()

    return asyncio.run(main())


def program(tmp_path, backend, body, *, limit=60.0, stdin=subprocess.DEVNULL, flags=(), env=None):
    """What `body` printed, run as a program of its own in `tmp_path` on `backend`."""
    head = "import asyncio, gc, os, sys, threading, time\nimport ayafileio\n"
    head += f"ayafileio.configure({{'backend': {backend!r}}})\n"
    where = tmp_path / "program.py"
    where.write_text(head + textwrap.dedent(body), encoding="utf-8")
    started = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", *flags, str(where)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, **(env or {})},
        start_new_session=True,
        text=True,
    )
    try:
        out, err = started.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        out, err = started.communicate()
        raise AssertionError(f"no exit after {limit} s\n{out}\n{err}") from None
    assert started.returncode == 0, f"exit code {started.returncode}\n{out}\n{err}"
    program.stderr = err
    return out


def descriptors():
    """How many are open, but for those that libdispatch has for a moment to look at its threads."""
    gc.collect()
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing's own, or gone
            pass
    return sum(not (name.startswith("/proc/") and name.endswith("/stat")) for name in names)


def kernel_threads():
    """Threads of this process as the kernel sees them, a ring's workers too."""
    return len(os.listdir("/proc/self/task"))


def settles(measure, most, limit=5.0):
    """The measure, once it is at most `most`, or after `limit` seconds."""
    end = time.monotonic() + limit
    while measure() > most and time.monotonic() < end:
        time.sleep(0.02)
    return measure()


class Heartbeat:
    """async with: `longest` is the longest time for which the loop served no 2 ms timer."""

    def __init__(self):
        self.longest = 0.0

    async def __aenter__(self):
        self._last = time.monotonic()
        self._task = asyncio.ensure_future(self._beat())
        await asyncio.sleep(0.01)
        self.longest = 0.0
        return self

    async def _beat(self):
        while True:
            await asyncio.sleep(0.002)
            now = time.monotonic()
            self.longest = max(self.longest, now - self._last)
            self._last = now

    async def __aexit__(self, *_):
        self.longest = max(self.longest, time.monotonic() - self._last)
        self._task.cancel()


class LoopThread:
    """with: an event loop that runs in a thread of its own."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._main)
        self.thread.start()
        return self.loop

    def _main(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        assert not self.thread.is_alive()
        self.loop.close()
