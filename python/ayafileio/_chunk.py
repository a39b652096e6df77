"""AsyncFile.chunk(): a file by pieces, each a view of one buffer."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._ayafileio import AsyncFile


async def chunks(
    file: AsyncFile[bytes], chunk_size: int, buf: bytearray | memoryview | None
) -> AsyncIterator[memoryview]:
    if file.closed:
        raise ValueError("I/O operation on closed file.")
    if chunk_size <= 0:
        raise ValueError(f"chunk_size must be positive, not {chunk_size}")
    if hasattr(file, "encoding"):
        raise io.UnsupportedOperation("chunk needs a binary file (or f.buffer)")
    with memoryview(bytearray(chunk_size) if buf is None else buf).cast("B") as view:
        view = view[:chunk_size]
        while count := await file.readinto(view):
            yield view[:count]
