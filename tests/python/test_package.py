"""The package's public names, and the small modules around the extension."""

import asyncio
import os
import shutil
import subprocess
import sys
import warnings
from importlib import metadata

import pytest

import ayafileio
import ayafileio.util

# What 2.0.0 on PyPI exports.
EARLIER_NAMES = """
open aopen wrap_file acopy read_bytes write_bytes read_text write_text read_bytes_many
read_text_many write_bytes_many write_text_many AyaFileIO AsyncFile AyafileioConfig BackendInfo
Capabilities get_capabilities configure get_config reset_config get_backend_info
set_io_worker_count set_iocp_worker_count drain_buffer_pool warn_fake_async util __version__
""".split()


def run(coroutine, limit=60):
    async def main():
        return await asyncio.wait_for(coroutine, limit)

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def default_config():
    yield
    ayafileio.reset_config()


@pytest.mark.parametrize("name", EARLIER_NAMES)
def test_names_of_earlier_releases_are_there(name):
    assert getattr(ayafileio, name) is not None


def test_all_is_what_there_is():
    assert len(set(ayafileio.__all__)) == len(ayafileio.__all__)
    for name in ayafileio.__all__:
        assert hasattr(ayafileio, name), name


def test_version_is_the_installed_one():
    assert ayafileio.__version__ == metadata.version("ayafileio")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ayafileio.nothing


def test_extension_exports_its_init_function_only_and_is_small():
    path = ayafileio._ayafileio.__file__
    assert os.path.getsize(path) < 500_000
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("there is no nm")
    command = [nm, "-D", "--defined-only", path]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # A linker adds these where a library that it links with (libdispatch) has them too.
    linkers_own = {"__bss_start", "_edata", "_end"}
    assert {line.split()[-1] for line in listed.splitlines()} - linkers_own == {"PyInit__ayafileio"}


def test_import_is_quiet_and_starts_nothing():
    """No warning, no thread, no descriptor, also where the pool of threads serves."""
    program = (
        "import os, threading\n"
        "before = sorted(os.listdir('/proc/self/fd'))\n"
        "import ayafileio\n"
        "assert sorted(os.listdir('/proc/self/fd')) == before\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.parametrize("opener", [ayafileio.open, ayafileio.aopen, ayafileio.AsyncFile.open])
def test_ways_to_open(tmp_path, opener):
    path = tmp_path / "file"
    path.write_text("text", "utf-8")

    async def main():
        async with opener(path) as f:
            assert await f.read() == b"text"
        assert f.closed
        f = await opener(path, "r", "utf-8")
        assert await f.read() == "text"
        await f.close()
        with pytest.raises(FileNotFoundError):
            await opener(tmp_path / "missing")

    run(main())


def test_files_fit_the_protocol(tmp_path):
    async def main():
        async with ayafileio.open(tmp_path / "file", "wb") as f:
            assert isinstance(f, ayafileio.AyaFileIO)
            assert isinstance(f, ayafileio.AsyncFile)

    run(main())
    assert ayafileio.AsyncFile[bytes] is not None


# -- configuration ------------------------------------------------------------------------------


def test_config_has_the_options_of_the_type():
    assert set(ayafileio.get_config()) == set(ayafileio.AyafileioConfig.__annotations__)


def test_configure_takes_its_options_by_name_too():
    ayafileio.configure(options={"buffer_pool_max": 7})
    assert ayafileio.get_config()["buffer_pool_max"] == 7
    ayafileio.reset_config()
    with pytest.raises(TypeError):
        ayafileio.configure()


def test_worker_count():
    ayafileio.set_io_worker_count(7)
    assert ayafileio.get_config()["io_worker_count"] == 7
    ayafileio.set_iocp_worker_count(3)
    assert ayafileio.get_config()["io_worker_count"] == 3
    ayafileio.set_io_worker_count()
    assert ayafileio.get_config()["io_worker_count"] == 0
    with pytest.raises(ValueError, match="128"):
        ayafileio.set_io_worker_count(129)
    with pytest.raises(TypeError):
        ayafileio.set_io_worker_count("4")


def test_deprecated_calls_and_options_name_the_callers_line():
    calls = [
        ayafileio.drain_handle_pool,
        lambda: ayafileio.configure({"handle_pool_max_total": 1}),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [w.category for w in caught] == [DeprecationWarning]
        assert caught[0].filename == __file__


def test_capabilities_extend_backend_info():
    info, capabilities = ayafileio.get_backend_info(), ayafileio.get_capabilities()
    assert info.items() <= capabilities.items()
    assert {"platform", "backend", "os_version", "description", "is_truly_async"} < info.keys()
    assert capabilities["features"]["positional_io"] is True
    assert capabilities["backend_detail"]["completion_model"] is info["is_truly_async"]


def test_capabilities_tell_how_each_operation_is_served(backend):
    capabilities = ayafileio.get_capabilities()
    ways, features = capabilities["operations"], capabilities["features"]
    assert {"read_at", "open", "fsync", "preadv", "pwritev", "wait_readable"} < ways.keys()
    assert set(ways.values()) <= {"own", "asked", "direct", "fallback", "unsupported"}
    own = {"threads": "own", "io_uring": "own", "linux_aio": "direct"}.get(backend)
    if own is not None:
        assert [ways[name] for name in ("read_at", "read_many", "preadv", "pwritev")] == [own] * 4
        assert ways["open"] == ("own" if backend == "threads" else "fallback")
        assert all(features[name] for name in ("vectored_io", "io_priority", "transfer_flags"))
        assert features["poll"] and features["cancel"]


def test_warn_fake_async_warns_once_where_the_pool_serves():
    program = (
        "import warnings, ayafileio\n"
        "ayafileio.configure({'backend': 'threads'})\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    ayafileio.warn_fake_async()\n"
        "    ayafileio.warn_fake_async()\n"
        "assert [w.category for w in caught] == [UserWarning], caught\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_is_real_file(tmp_path):
    reader, writer = os.pipe()
    with open(tmp_path / "file", "wb") as f:
        assert ayafileio.util.is_real_file(f.fileno())
        assert not ayafileio.util.is_real_file(reader)
        assert not ayafileio.util.is_real_file(object())
    os.close(reader)
    os.close(writer)
    assert not ayafileio.util.is_real_file(reader)


# -- wrap_file ----------------------------------------------------------------------------------


def test_wrap_starts_and_ends_at_the_descriptors_position(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    async def main(fd):
        os.lseek(fd, 3, os.SEEK_SET)
        f = ayafileio.wrap_file(fd)
        assert await f.read(4) == b"3456"
        await f.close()

    fd = os.open(path, os.O_RDONLY)
    run(main(fd))
    assert os.read(fd, 10) == b"789"
    os.close(fd)


def test_wrap_that_owns_closes(tmp_path):
    async def main(fd):
        async with ayafileio.wrap_file(fd, "wb", owns_fd=True) as f:
            await f.write(b"data")

    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    run(main(fd))
    with pytest.raises(OSError):
        os.fstat(fd)
    assert (tmp_path / "file").read_bytes() == b"data"


def test_wrap_keeps_a_file_object_alive(tmp_path):
    (tmp_path / "file").write_bytes(b"data")

    async def main():
        f = ayafileio.wrap_file(open(tmp_path / "file", "rb"))
        assert await f.read() == b"data"
        assert f.name == str(tmp_path / "file")
        await f.close()

    run(main())


def test_wrap_takes_a_file_object_over(tmp_path):
    path = tmp_path / "file"

    async def main():
        base = open(path, "wb")
        base.write(b"buffered ")
        f = ayafileio.wrap_file(base, "wb", owns_fd=True)
        assert base.closed
        await f.write(b"data")
        fd = f.fileno()
        await f.close()
        with pytest.raises(OSError):
            os.fstat(fd)

    run(main())
    assert path.read_bytes() == b"buffered data"


def test_wrap_takes_pipes():
    async def main():
        reader, writer = os.pipe()
        async with ayafileio.wrap_file(writer, "wb", owns_fd=True) as f:
            await f.write(b"through")
        async with ayafileio.wrap_file(reader, owns_fd=True) as f:
            return await f.read()

    assert run(main()) == b"through"


def test_wrap_refuses_text_modes(tmp_path):
    with open(tmp_path / "file", "w") as f, pytest.raises(ValueError, match="binary"):
        ayafileio.wrap_file(f.fileno(), "w")
