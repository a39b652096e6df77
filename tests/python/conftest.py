"""The backends that each test runs on, and a hard limit for tests that hold the interpreter."""

import faulthandler
import os
import sys

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ayafileio  # noqa: E402
from support import BACKENDS  # noqa: E402

CHOSEN = os.environ.get("AYA_TEST_BACKENDS", " ".join(BACKENDS)).split()


@pytest.fixture(params=CHOSEN)
def backend(request):
    """The name of the backend that is configured for the test."""
    try:
        ayafileio.configure({"backend": request.param})
    except ValueError as refused:
        pytest.skip(str(refused))
    yield request.param
    ayafileio.reset_config()


@pytest.fixture(autouse=True)
def _hard_limit(request):
    # The real stderr: what a test writes is captured, and lost when the interpreter is ended.
    stderr = request.config.stash.get(fault_handler_stderr_fd_key, sys.__stderr__)
    faulthandler.dump_traceback_later(300, exit=True, file=stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def digits(tmp_path):
    path = tmp_path / "digits"
    path.write_bytes(b"0123456789")
    return path
