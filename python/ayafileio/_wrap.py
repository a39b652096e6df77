"""Files made from a descriptor that is open already."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary

from . import _ayafileio
from ._types import FileObj

# A file object closes its descriptor when it is collected: it lives as long as what uses that.
_bases: WeakKeyDictionary[_ayafileio.AsyncFile[bytes], FileObj] = WeakKeyDictionary()


def wrap_file(
    file: int | FileObj, mode: str = "rb", *, owns_fd: bool = False
) -> _ayafileio.AsyncFile[bytes]:
    """Make an AsyncFile of an open descriptor, or of an object that has one.

    It starts at the descriptor's own position, and leaves that where it stopped. Pipes, terminals
    and sockets are taken as well. `mode` is a binary one.

    With `owns_fd` closing it closes the descriptor. A file object given with `owns_fd` is flushed
    and closed at once, and its open file goes on in the AsyncFile under a new descriptor: otherwise
    both would close the same number. Without `owns_fd`, flush the object first if it was written.
    """
    if "b" not in mode:
        raise ValueError(f"binary modes only (such as 'rb' or 'wb'), not {mode!r}")
    name: Any = file if isinstance(file, int) else getattr(file, "name", None)
    if isinstance(file, int):
        return _ayafileio.wrap(file, mode, owns_fd, name)
    fd = file.fileno()
    if name is None:
        name = fd
    if not owns_fd:
        wrapped = _ayafileio.wrap(fd, mode, False, name)
        _bases[wrapped] = file
        return wrapped
    fd = os.dup(fd)
    try:
        close = getattr(file, "close", None)
        if close is not None:
            close()
        return _ayafileio.wrap(fd, mode, True, name)
    except BaseException:
        os.close(fd)
        raise
