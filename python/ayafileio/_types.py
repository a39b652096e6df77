"""Types of the public API that exist for annotations and `isinstance`."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, Union, runtime_checkable

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Self
    else:
        from typing_extensions import Self

StrPath = Union[str, "os.PathLike[str]"]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Buffer = Union[bytes, bytearray, memoryview]

T_co = TypeVar("T_co", str, bytes, covariant=True)


@runtime_checkable
class AyaFileIO(Protocol[T_co]):
    """What every file of this library offers, whatever opened it."""

    def read(self, size: int = -1) -> Awaitable[T_co]: ...
    def write(self, data: Any) -> Awaitable[int]: ...
    def read_at(self, offset: int, size: int = -1) -> Awaitable[bytes]: ...
    def read_many(self, spans: Iterable[tuple[int, int]]) -> Awaitable[list[bytes]]: ...
    def write_at(self, offset: int, data: Buffer) -> Awaitable[int]: ...
    def write_many(self, writes: Iterable[tuple[int, Buffer]]) -> Awaitable[list[int]]: ...
    def seek(self, offset: int, whence: int = 0) -> Awaitable[int]: ...
    def flush(self) -> Awaitable[None]: ...
    def close(self) -> Awaitable[None]: ...

    @property
    def closed(self) -> bool: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *args: object) -> None: ...


@runtime_checkable
class FileObj(Protocol):
    """Anything that has a file descriptor."""

    def fileno(self) -> int: ...


class BackendInfo(TypedDict):
    """What `get_backend_info()` returns."""

    platform: str
    backend: str
    os_version: str
    description: str
    is_truly_async: bool
    unused: dict[str, str]  # every other backend: why it is not used


class LibraryFeatures(TypedDict):
    """The library's own abilities, the same keys on every system."""

    positional_io: bool
    batch_positional_io: bool
    zero_copy_readinto: bool
    chunked_streaming: bool
    async_open: bool
    adaptive_batching: bool
    fast_file_copy: bool
    vectored_io: bool  # several pieces of memory in one transfer
    io_priority: bool  # a class among those that wait for the device; libaya's preadv, pwritev
    transfer_flags: bool  # durable and at the end, for one transfer; libaya's pwritev
    poll: bool  # libaya's wait_readable, wait_writable
    cancel: bool


class BackendDetail(TypedDict, total=False):
    """Facts of the backend in use."""

    available: bool
    completion_model: bool  # the kernel tells when an operation is done
    note: str


class Capabilities(BackendInfo):
    """What `get_capabilities()` returns."""

    features: LibraryFeatures
    operations: dict[str, str]  # own, asked, direct, fallback or unsupported
    backend_detail: BackendDetail
