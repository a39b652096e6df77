"""Asynchronous file I/O for asyncio, on what the kernel offers.

    import asyncio, ayafileio

    async def main():
        async with ayafileio.open("data.bin", "rb") as f:
            head, tail = await asyncio.gather(f.read_at(0, 16), f.read_at(4096, 16))

    asyncio.run(main())
"""

from typing import TYPE_CHECKING, Any

from . import _ayafileio
from ._ayafileio import AsyncFile, Operation, open, stats
from ._ayafileio import open as aopen
from ._config import (
    AyafileioConfig,
    configure,
    drain_buffer_pool,
    drain_handle_pool,
    get_backend_info,
    get_capabilities,
    get_config,
    reset_config,
    set_io_worker_count,
    set_iocp_worker_count,
)
from ._copy import acopy
from ._types import AyaFileIO, BackendInfo, Capabilities
from ._whole import (
    read_bytes,
    read_bytes_many,
    read_text,
    read_text_many,
    write_bytes,
    write_bytes_many,
    write_text,
    write_text_many,
)
from ._wrap import wrap_file
from .util import warn_fake_async

__all__ = [
    "AsyncFile",
    "AyaFileIO",
    "AyafileioConfig",
    "BackendInfo",
    "Capabilities",
    "Operation",
    "acopy",
    "aopen",
    "configure",
    "drain_buffer_pool",
    "drain_handle_pool",
    "get_backend_info",
    "get_capabilities",
    "get_config",
    "open",
    "read_bytes",
    "read_bytes_many",
    "read_text",
    "read_text_many",
    "reset_config",
    "set_io_worker_count",
    "set_iocp_worker_count",
    "stats",
    "warn_fake_async",
    "wrap_file",
    "write_bytes",
    "write_bytes_many",
    "write_text",
    "write_text_many",
]

# Operations that belong to a path or to nothing: whatever spec/ops declares of that kind.
if TYPE_CHECKING:
    from ._ayafileio import *  # type: ignore[assignment]
for _name in _ayafileio._operation_functions:
    globals()[_name] = getattr(_ayafileio, _name)
    __all__.append(_name)


def __getattr__(name: str) -> Any:
    # Reading the installed metadata takes longer than the rest of the import.
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("ayafileio")
        except PackageNotFoundError:  # used without being installed
            return "0+unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
