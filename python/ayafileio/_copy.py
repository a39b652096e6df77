"""Copies of whole files."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Iterator

from ._ayafileio import AsyncFile
from ._ayafileio import open as _open
from ._each import each
from ._types import Path

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
    `dst` alone. `copy_stat` also copies what `shutil.copystat()` does. Up to `concurrency` pieces
    of `chunk_size` bytes are on their way at a time.

    Raises shutil.SameFileError where both are one file, shutil.SpecialFileError for a FIFO, and
    OSError as `open()`, reading and writing do. A cancel or an error leaves a partial `dst`.
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    size = await asyncio.to_thread(_look, src, dst)
    async with _open(src, "rb", buffering=0) as source:
        async with _open(dst, "wb", buffering=0) as target:
            if size > chunk_size:
                copied = await _copy_in_pieces(source, target, size, chunk_size, concurrency)
            else:
                piece = size + 1 if size else _UNKNOWN_SIZE_PIECE
                copied = await _copy_in_order(source, target, min(piece, chunk_size))
    if copy_stat:
        await asyncio.to_thread(shutil.copystat, src, dst)
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
