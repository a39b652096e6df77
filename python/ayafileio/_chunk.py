"""AsyncFile.chunk(): a file by pieces, each a view of one buffer."""

import io


async def chunks(file, chunk_size, buf):
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
