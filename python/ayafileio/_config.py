"""Configuration and what the library says of itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TypedDict, cast

from . import _ayafileio
from ._types import BackendInfo, Capabilities


class AyafileioConfig(TypedDict, total=False):
    """The options of `configure()`; docs/configuration.md tells ranges and defaults."""

    backend: str
    io_worker_count: int
    buffer_size: int
    close_timeout_ms: int
    io_uring_queue_depth: int
    io_uring_sqpoll: bool
    iocp_batch_size: int
    buffer_pool_max: int
    handle_pool_max_per_key: int
    handle_pool_max_total: int
    adaptive_batch: bool
    adaptive_target_latency_us: int


# The extension's own functions, not wrapped: their warnings name the caller's line.
configure = cast("Callable[[AyafileioConfig], None]", _ayafileio.configure)
get_config = cast("Callable[[], AyafileioConfig]", _ayafileio.get_config)
reset_config = _ayafileio.reset_config
get_backend_info = cast("Callable[[], BackendInfo]", _ayafileio.backend_info)


def get_capabilities() -> Capabilities:
    """Return `get_backend_info()` with `features`, `operations` and `backend_detail` added.

    `operations` tells how the backend serves each operation, those of libaya alone too: `own`;
    `asked`, its own where the running kernel has it; `direct`, its own for files opened past the
    page cache; `fallback`, the pool of threads; `unsupported`.
    """
    info = get_backend_info()
    operations = _ayafileio.operation_ways()

    def has(*names: str) -> bool:
        return all(operations[name] != "unsupported" for name in names)

    return {
        **info,
        "features": {
            "positional_io": True,
            "batch_positional_io": True,
            "zero_copy_readinto": True,
            "chunked_streaming": True,
            "async_open": True,
            "adaptive_batching": False,
            "fast_file_copy": hasattr(os, "copy_file_range"),
            "vectored_io": has("preadv", "writev_at"),
            "io_priority": has("pwritev"),
            "transfer_flags": has("pwritev"),
            "poll": has("wait_readable", "wait_writable"),
            "cancel": True,
        },
        "operations": operations,
        "backend_detail": {
            "available": True,
            "completion_model": info["is_truly_async"],
            "note": info["description"],
        },
    }


def set_io_worker_count(count: int = 0) -> None:
    """Set the most threads of the pool, 0 to 128; 0 chooses by the number of processors."""
    configure({"io_worker_count": count})


def set_iocp_worker_count(count: int = 0) -> None:
    """The same as `set_io_worker_count()`."""
    configure({"io_worker_count": count})


def drain_buffer_pool() -> None:
    """Free the idle buffers that are kept for reuse; see the option `buffer_pool_max`."""
    _ayafileio.drain_buffer_pool()


def drain_handle_pool() -> None:
    """Do nothing: handles are not kept any more."""
    warnings.warn("there is no handle pool to drain", DeprecationWarning, stacklevel=2)
