"""Small questions about files and backends."""

from __future__ import annotations

import os
import stat
import warnings
from typing import Any

from . import _ayafileio

_warned = False


def is_real_file(obj: Any) -> bool:
    """Tell whether a descriptor (or path) is a regular file; False where it cannot be looked at."""
    try:
        return stat.S_ISREG(os.fstat(obj).st_mode)
    except (OSError, TypeError, AttributeError, ValueError):
        return False


def warn_fake_async() -> None:
    """Give a UserWarning, once in a process, where a pool of threads serves all operations."""
    global _warned
    info = _ayafileio.backend_info()
    if _warned or info["is_truly_async"]:
        return
    _warned = True
    reasons = "; ".join(f"{name}: {reason}" for name, reason in info["unused"].items())
    warnings.warn(
        f"ayafileio: {info['description']} ({info['platform']}, {info['os_version']}); {reasons}",
        UserWarning,
        stacklevel=2,
    )
