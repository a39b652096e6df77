"""Copies of whole files."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ._ayafileio import AsyncFile
from ._ayafileio import open as _open
from ._each import each
from ._types import Path

Result = TypeVar("Result")

# Why copy_file_range() refuses two files: filesystems, kinds, kernels, or seccomp.
_CANNOT_COPY = {
    getattr(errno, name, None)
    for name in ("EINVAL", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EPERM", "EXDEV")
}
_UNKNOWN_SIZE_PIECE = 256 * 1024  # of what tells no size: /proc, devices


async def acopy(
    src: Path,
    dst: Path,
    *,
    chunk_size: int = 4 * 1024 * 1024,
    concurrency: int = 8,
    copy_stat: bool = False,
) -> int:
    """Copy the content of file `src` to file `dst`; return how many bytes that is.

    An existing `dst` is replaced by the content, a missing one is created; a missing `src` leaves
    `dst` alone. `copy_stat` also copies what `shutil.copystat()` does. A file of more than
    `chunk_size` bytes is copied by the system where it can (copy_file_range); elsewhere up to
    `concurrency` pieces of `chunk_size` bytes are on their way at a time.

    Raises shutil.SameFileError where both are one file, shutil.SpecialFileError for a FIFO, and
    OSError as `open()`, reading and writing do. A cancel or an error leaves a partial `dst`.
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    size = await _in_thread(_look, src, dst)
    async with _open(src, "rb", buffering=0) as source:
        async with _open(dst, "wb", buffering=0) as target:
            if size > chunk_size:
                copied = await _copy_by_system(source, target, chunk_size, src, dst)
                if copied == 0:
                    copied = await _copy_in_pieces(source, target, size, chunk_size, concurrency)
            else:
                piece = size + 1 if size else _UNKNOWN_SIZE_PIECE
                copied = await _copy_in_order(source, target, min(piece, chunk_size))
    if copy_stat:
        await _in_thread(shutil.copystat, src, dst)
    return copied


def _look(src: Path, dst: Path) -> int:
    """Refuse what cannot be copied; return the size of `src` where it may be relied on, else 0."""
    source = os.stat(src)
    try:
        target = os.stat(dst)
    except FileNotFoundError:
        pass
    else:
        if os.path.samestat(source, target):
            raise shutil.SameFileError(f"{src!r} and {dst!r} are the same file")
        if stat.S_ISDIR(target.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(dst))
        if stat.S_ISFIFO(target.st_mode):
            raise shutil.SpecialFileError(f"{dst!r} is a named pipe")
    if stat.S_ISDIR(source.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(src))
    if stat.S_ISFIFO(source.st_mode):
        raise shutil.SpecialFileError(f"{src!r} is a named pipe")
    return source.st_size if stat.S_ISREG(source.st_mode) else 0


async def _in_thread(
    function: Callable[..., Result], *arguments: Any, stop: Callable[[], None] | None = None
) -> Result:
    """Run what blocks; also where it is cancelled the thread has ended when this ends."""
    running = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                pass
        if not running.cancelled():
            running.exception()  # looked at: the cancel is what is raised
        raise


async def _copy_by_system(
    source: AsyncFile[bytes], target: AsyncFile[bytes], piece: int, src: Path, dst: Path
) -> int:
    """Return how many bytes were copied; 0 where the system cannot do it for these files."""
    if not hasattr(os, "copy_file_range"):
        return 0
    stopped = threading.Event()

    def copy(source_fd: int, target_fd: int) -> int:
        copied = 0
        while not stopped.is_set():
            got = os.copy_file_range(source_fd, target_fd, piece, copied, copied)
            if got == 0:
                break
            copied += got
        return copied

    try:
        return await _in_thread(copy, source.fileno(), target.fileno(), stop=stopped.set)
    except OSError as error:
        if error.errno in _CANNOT_COPY:
            return 0
        raise OSError(error.errno, error.strerror, src, None, dst) from None


async def _write_all(target: AsyncFile[bytes], data: memoryview) -> None:
    while data:
        data = data[await target.write(data) :]


async def _copy_in_order(source: AsyncFile[bytes], target: AsyncFile[bytes], piece: int) -> int:
    copied = 0
    while data := await source.read(piece):
        await _write_all(target, memoryview(data))
        copied += len(data)
    return copied


async def _copy_in_pieces(
    source: AsyncFile[bytes], target: AsyncFile[bytes], size: int, piece: int, most: int
) -> int:
    ended = False
    buffers: list[memoryview] = []

    def offsets() -> Iterator[tuple[int]]:
        # Until a read finds the end: the file may have grown or shrunk since it was looked at.
        offset = 0
        while not ended:
            yield (offset,)
            offset += piece

    async def copy(offset: int) -> int:
        nonlocal ended
        buffer = buffers.pop() if buffers else memoryview(bytearray(piece))
        got = await source.readinto_at(offset, buffer)
        ended = ended or got < piece
        if got:
            await target.write_at(offset, buffer[:got])
        buffers.append(buffer)
        return got

    return sum(await each(copy, offsets(), min(most, -(-size // piece))))
