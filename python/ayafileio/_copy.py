"""Copies of whole files."""

from __future__ import annotations

import errno
import os
import shutil
import stat

from ._ayafileio import AsyncFile, stat_path
from ._ayafileio import open as _open
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
    `dst` alone. `copy_stat` also copies what `shutil.copystat()` does. A file of more than
    `chunk_size` bytes is copied by one `AsyncFile.copy_range()`, from its start to its end;
    several pieces at a time were measured to be slower, so `concurrency` changes nothing.

    Raises shutil.SameFileError where both are one file, shutil.SpecialFileError for a FIFO, and
    OSError as `open()`, reading and writing do. A cancel or an error leaves a partial `dst`.
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    size = await _look(src, dst)
    async with _open(src, "rb", buffering=0) as source:
        async with _open(dst, "wb", buffering=0) as target:
            if size > chunk_size and await _positioned(target):
                copied = await source.copy_range(0, target, 0)
            else:
                piece = size + 1 if size else _UNKNOWN_SIZE_PIECE
                copied = await _copy_in_order(source, target, min(piece, chunk_size))
            if copy_stat:
                await source.copy_stat(target)
    return copied


async def _look(src: Path, dst: Path) -> int:
    """Refuse what cannot be copied; return the size of `src` where it may be relied on, else 0."""
    source = await stat_path(src)
    try:
        target = await stat_path(dst)
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


async def _positioned(file: AsyncFile[bytes]) -> bool:
    return stat.S_ISREG((await file.stat()).st_mode)


async def _copy_in_order(source: AsyncFile[bytes], target: AsyncFile[bytes], piece: int) -> int:
    copied = 0
    while data := await source.read(piece):
        rest = memoryview(data)
        while rest:
            rest = rest[await target.write(rest) :]
        copied += len(data)
    return copied
