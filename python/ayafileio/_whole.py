"""Whole files in one await, and many of them with a bound on how many are open at once."""

from __future__ import annotations

import io
from collections.abc import Iterable

from ._ayafileio import open as _open
from ._ayafileio import read_whole
from ._each import each, each_operation
from ._types import Buffer, Path


async def read_bytes(path: Path) -> bytes:
    """Return the file's content."""
    return await read_whole(path)


async def write_bytes(path: Path, data: Buffer) -> int:
    """Make `data` the file's content; return how many bytes that is."""
    memoryview(data)  # a TypeError comes before the open, which empties the file
    async with _open(path, "wb") as f:
        return await f.write(data)


async def read_text(
    path: Path,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> str:
    """Return the file's text; the arguments mean what they mean for `open()`."""
    encoding = io.text_encoding(encoding)
    async with _open(path, "r", encoding, newline, errors) as f:
        return await f.read()


async def write_text(
    path: Path,
    data: str,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> int:
    """Make `data` the file's text; return how many characters that is."""
    if not isinstance(data, str):
        raise TypeError(f"data must be str, not {type(data).__name__}")
    encoding = io.text_encoding(encoding)
    async with _open(path, "w", encoding, newline, errors) as f:
        return await f.write(data)


def _check(max_concurrency: int) -> int:
    if max_concurrency < 1:
        raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency}")
    return max_concurrency


async def read_bytes_many(paths: Iterable[Path], *, max_concurrency: int = 64) -> list[bytes]:
    """Return the content of each file, in the order of `paths`.

    At most `max_concurrency` files are open at a time. The first error ends the call: what is
    running is cancelled, nothing more is begun, and the error is raised. Further errors go to the
    loop's exception handler.
    """
    return await each_operation(read_whole, paths, _check(max_concurrency))


async def read_text_many(
    paths: Iterable[Path],
    encoding: str | None = None,
    *,
    errors: str | None = None,
    newline: str | None = None,
    max_concurrency: int = 64,
) -> list[str]:
    """Return the text of each file, in the order of `paths`; see `read_bytes_many()`."""
    encoding = io.text_encoding(encoding)
    arguments = ((path, encoding, errors, newline) for path in paths)
    return await each(read_text, arguments, _check(max_concurrency))


async def write_bytes_many(
    pairs: Iterable[tuple[Path, Buffer]], *, max_concurrency: int = 64
) -> list[int]:
    """Write each `(path, data)`; return the numbers of bytes, in order; see `read_bytes_many()`.

    Files that were written before an error stay written.
    """
    return await each(write_bytes, ((path, data) for path, data in pairs), _check(max_concurrency))


async def write_text_many(
    pairs: Iterable[tuple[Path, str]],
    encoding: str | None = None,
    *,
    errors: str | None = None,
    newline: str | None = None,
    max_concurrency: int = 64,
) -> list[int]:
    """Write each `(path, text)`; return the numbers of characters; see `write_bytes_many()`."""
    encoding = io.text_encoding(encoding)
    arguments = ((path, data, encoding, errors, newline) for path, data in pairs)
    return await each(write_text, arguments, _check(max_concurrency))
