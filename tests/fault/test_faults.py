"""Errors of the system, made on demand: each is reported with its errno, and nothing written is
lost without one."""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import textwrap
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import ayafileio  # noqa: E402
from support import BACKENDS, program  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(params=BACKENDS)
def backend(request):
    try:
        ayafileio.configure({"backend": request.param})
    except ValueError as refused:
        pytest.skip(str(refused))
    finally:
        ayafileio.reset_config()
    return request.param


@pytest.fixture
def faulty(tmp_path):
    """A mounted tests/fault/slowfs.py that does not sleep."""
    folder = tmp_path / "mount"
    folder.mkdir()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        pytest.skip("needs root and /dev/fuse")
    server = subprocess.Popen(
        [sys.executable, str(HERE / "slowfs.py"), str(folder), "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if server.stdout.readline() != "ready\n":
        pytest.skip("cannot mount")
    yield folder
    server.terminate()
    server.wait(10)
    server.stdout.close()


def test_reads_that_fail_or_stay_short(faulty, tmp_path, backend):
    program(
        tmp_path,
        backend,
        """
        whole = b"abcdefgh" * 8192
        async def main():
            async with ayafileio.open("mount/short") as file:
                assert await file.read_at(0, 1000) == whole[:1000]
                assert await file.read_at(3) == whole[3:]
                assert await file.read() == whole
                spans = [(0, 300), (65_500, 300)]
                assert await file.read_many(spans) == [whole[:300], whole[65_500:]]
            async with ayafileio.open("mount/eio") as file:
                assert await file.read_at(0, 4096) == whole[:4096]
                many = file.read_many([(0, 10), (5000, 10)])
                for call in (file.read_at(4000, 1000), many, file.read()):
                    try:
                        await call
                    except OSError as error:
                        assert error.errno == 5, error
                    else:
                        raise AssertionError("no error")
        asyncio.run(main())
        """,
    )


def test_writes_that_fail(faulty, tmp_path, backend):
    program(
        tmp_path,
        backend,
        """
        import errno

        async def failing(call, number):
            try:
                await call
            except OSError as error:
                assert error.errno == number, error
            else:
                raise AssertionError("no error")

        async def main():
            file = await ayafileio.open("mount/enospc", "r+b")
            await failing(file.write_at(0, b"x"), errno.ENOSPC)
            await file.write(b"x")
            await failing(file.flush(), errno.ENOSPC)
            await failing(file.close(), errno.ENOSPC)
            assert file.closed
            file = await ayafileio.open("mount/enospc", "r+b")
            failed = 0
            for _ in range(50):
                try:
                    await file.write(b"y" * 100_000)
                except OSError:
                    failed += 1
            if failed < 50:  # some were accepted: their error is seen at the end
                await failing(file.close(), errno.ENOSPC)
            await file.close()
            assert failed > 0 and file.closed
            file = await ayafileio.open("mount/badsync", "r+b")
            await file.write(b"x")
            await failing(file.fsync(), errno.EIO)
            await file.close()
        asyncio.run(main())
        """,
    )


def test_a_full_filesystem(tmp_path, backend):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(mounted.stderr.decode())
    try:
        program(
            tmp_path,
            backend,
            """
            import errno
            async def main():
                file = await ayafileio.open("small/f", "wb")
                seen = 0
                for _ in range(40):
                    try:
                        await file.write(b"x" * 50_000)
                    except OSError as error:
                        assert error.errno == errno.ENOSPC
                        seen += 1
                try:
                    await file.close()
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    seen += 1
                assert seen > 0 and file.closed
                async with ayafileio.open("small/g", "wb", buffering=0) as file:
                    try:
                        await file.write_at(0, b"y" * 100_000)
                    except OSError as error:
                        assert error.errno == errno.ENOSPC
                    else:
                        raise AssertionError("no error")
            asyncio.run(main())
            """,
        )
    finally:
        subprocess.run(["umount", folder], check=True)


# How the programs below begin: no file may have more than 10,000 bytes.
LIMITED = """
import errno, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

async def is_too_big(writing):
    try:
        await writing
    except OSError as error:
        assert error.errno == errno.EFBIG, error
    else:
        raise AssertionError("no error")
"""


def test_a_file_size_limit_makes_a_short_write_then_an_error(tmp_path, backend):
    program(
        tmp_path,
        backend,
        LIMITED
        + textwrap.dedent("""
        async def main():
            async with ayafileio.open("f", "r+b" if os.path.exists("f") else "w+b") as file:
                await is_too_big(file.write_at(0, b"x" * 20_000))
        asyncio.run(main())
        assert open("f", "rb").read() == b"x" * 10_000
        """),
    )


def test_many_writes_end_with_the_first_error(tmp_path, backend):
    program(
        tmp_path,
        backend,
        LIMITED
        + textwrap.dedent("""
        async def main():
            async with ayafileio.open("f", "w+b") as file:
                pairs = [(i * 1000, bytes([65 + i]) * 1000) for i in range(20)]
                await is_too_big(file.write_many(pairs))
                writing = file.write_many([(0, b"x" * 10_000)] * 2000)
                writing.cancel()
                assert await file.write_many([(9_999, b"z"), (0, b"y")]) == [1, 1]
        asyncio.run(main())
        content = open("f", "rb").read()
        assert len(content) == 10_000 and content[0:1] == b"y" and content[-1:] == b"z", content
        assert set(content[1:-1]) <= set(b"ABCDEFGHIJx"), content
        """),
    )


def test_no_descriptors_left(tmp_path, backend):
    program(
        tmp_path,
        backend,
        """
        import errno, resource
        open("f", "wb").write(b"x")
        async def main():
            async with ayafileio.open("f") as first:
                assert await first.read_at(0, 1) == b"x"
                used = len(os.listdir("/proc/self/fd"))
                resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, 4096))
                kept = []
                try:
                    for _ in range(200):
                        kept.append(await ayafileio.open("f"))
                except OSError as error:
                    assert error.errno == errno.EMFILE, error
                else:
                    raise AssertionError("no error")
                assert await first.read_at(0, 1) == b"x"
                for file in kept:
                    await file.close()
        asyncio.run(main())
        """,
    )


STRACE = shutil.which("strace")
# EINTR and short resources of the kernel: the call is made again.
INJECTED = [
    "pread64:error=EINTR:when=1+2",
    "pwrite64:error=EINTR:when=1+2",
    "fsync:error=EINTR:when=1",
    "io_uring_enter:error=EINTR:when=1+5",
    "io_uring_enter:error=EAGAIN:when=2",
    "io_submit:error=EAGAIN:when=1",
]


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize("injected", INJECTED)
def test_injected_errors_are_survived(injected, tmp_path, backend):
    body = f"""
    import ayafileio, asyncio
    ayafileio.configure({{"backend": {backend!r}}})
    async def main():
        async with ayafileio.open("f", "w+b") as file:
            await asyncio.gather(*[file.write_at(i * 10, b"%010d" % i) for i in range(50)])
            await file.write(b"z" * 10)
            await file.fsync()
            assert await file.read_at(10, 20) == b"%010d%010d" % (1, 2)
            assert await file.read_at(0) == b"z" * 10 + b"".join(b"%010d" % i for i in range(1, 50))
    asyncio.run(main())
    """
    (tmp_path / "f").touch()
    only = [] if injected.startswith("io_") else ["-P", str(tmp_path / "f")]
    run_injected(tmp_path, body, [*only, "-e", f"inject={injected}"])


def run_injected(folder, body, options):
    """Runs the text of a program under strace, in `folder`; it must succeed."""
    script = folder / "injected.py"
    script.write_text(textwrap.dedent(body))
    done = subprocess.run(
        [STRACE, "-f", "-o", "/dev/null", *options, sys.executable, str(script)],
        cwd=folder,
        capture_output=True,
        timeout=120,
        text=True,
    )
    if "ptrace" in done.stderr.lower() and "not permitted" in done.stderr.lower():
        pytest.skip("ptrace is not permitted")
    assert done.returncode == 0, done.stderr


# Without io_uring: what kernel AIO answers when it is set up, and the route that reads past the
# page cache then take.
BESIDE_THREADS = [(None, "direct"), ("EAGAIN", "backend"), ("ENOSYS", "backend")]


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize(("error", "route"), BESIDE_THREADS)
def test_kernel_aio_beside_the_pool(error, route, tmp_path):
    data = os.urandom(64 * 4096)
    (tmp_path / "f").write_bytes(data)
    try:
        descriptor = os.open(tmp_path / "f", os.O_RDONLY | os.O_DIRECT)
    except OSError as refused:
        pytest.skip(f"no O_DIRECT on this filesystem: {refused}")
    # What is still in the page cache would have to be written first: kernel AIO refuses that.
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    body = f"""
    import asyncio, ayafileio, mmap, os
    def direct(path, flags):
        return os.open(path, flags | os.O_DIRECT)
    async def main():
        async with ayafileio.open("f", "rb", opener=direct, buffering=0) as file:
            areas = [mmap.mmap(-1, 4096) for _ in range(64)]
            await asyncio.gather(*[file.readinto_at(4096 * i, a) for i, a in enumerate(areas)])
        assert b"".join(areas) == open("f", "rb").read()
        assert ayafileio.get_backend_info()["backend"] == "threads"
        routes = ayafileio.stats()["routes"]
        assert routes[{route!r}] >= 64, routes
        async with ayafileio.open("f", "rb") as file:
            assert await file.read(4096) == areas[0][:]
    asyncio.run(main())
    asyncio.run(main())
    """
    options = ["-e", "inject=io_uring_setup:error=ENOSYS"]
    if error is not None:
        options += ["-e", f"inject=io_setup:error={error}"]
    run_injected(tmp_path, body, options)


AIO_MOST = pathlib.Path("/proc/sys/fs/aio-max-nr")


@pytest.fixture
def no_kernel_aio():
    """The system has no requests of kernel AIO left, until the test ends."""
    if os.geteuid() != 0 or not os.access(AIO_MOST, os.W_OK):
        pytest.skip("needs root and a writable fs.aio-max-nr")
    before = AIO_MOST.read_text()
    AIO_MOST.write_text("1")
    yield
    AIO_MOST.write_text(before)


def test_kernel_aio_that_is_used_up(no_kernel_aio, tmp_path):
    (tmp_path / "f").write_bytes(bytes(range(256)) * 64)
    body = """
    import asyncio, ayafileio, mmap, os
    async def main():
        opener = lambda path, flags: os.open(path, flags | os.O_DIRECT)
        async with ayafileio.open("f", "rb", opener=opener, buffering=0) as file:
            area = mmap.mmap(-1, 4096)
            assert await file.readinto_at(4096, area) == 4096
            assert area[:] == bytes(range(256)) * 16
    try:
        ayafileio.configure({"backend": "linux_aio"})
    except ValueError as refused:
        assert "fs.aio-max-nr" in str(refused), refused
    else:
        raise AssertionError("linux_aio works without requests")
    asyncio.run(main())
    info = ayafileio.get_backend_info()
    assert info["backend"] in ("io_uring", "threads")
    assert "fs.aio-max-nr" in info["unused"]["linux_aio"], info
    ayafileio.configure({"backend": "threads"})
    asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], cwd=tmp_path,
                          capture_output=True, text=True)
    if "Invalid argument: 'f'" in done.stderr:
        pytest.skip("no O_DIRECT on this filesystem")
    assert done.returncode == 0, done.stderr


# Writes a stream that follows from its length alone, and tells how much of it each flush covered.
WRITER = """
import asyncio, os, random, sys
import ayafileio
ayafileio.configure({"backend": sys.argv[1]})
rng = random.Random(int(sys.argv[3]))
whole = random.Random(0).randbytes(1 << 20) * 2

async def main():
    done = 0
    async with ayafileio.open(sys.argv[2], sys.argv[4]) as file:
        while True:
            for _ in range(rng.randint(1, 8)):
                size = rng.choice((1, 100, 5000, 70_000, 300_000))
                start = done % (1 << 20)
                await file.write(whole[start : start + size])
                done += size
            await file.flush()
            os.write(1, b"%d\\n" % done)

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["wb", "ab", "r+b"])
def test_a_writer_that_is_killed_loses_nothing_that_was_flushed(tmp_path, backend, mode):
    """Whatever else of it is there is what it had written, in order and without a hole."""
    path = tmp_path / "file"
    part = random.Random(0).randbytes(1 << 20)
    flushed = 0
    for seed in range(6):
        path.write_bytes(b"")
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, backend, str(path), str(seed), mode],
            stdout=subprocess.PIPE,
        )
        said = writer.stdout.readline()  # so that it has begun
        time.sleep(random.Random(seed).random() * 0.2)
        writer.kill()
        writer.wait(60)
        told = (said + writer.stdout.read()).rsplit(b"\n", 1)[0]
        writer.stdout.close()
        least = int(told.split(b"\n")[-1])
        size = path.stat().st_size
        assert size >= least > 0
        flushed += least
        with open(path, "rb") as file:
            for start in range(0, size, 1 << 20):
                got = file.read(1 << 20)
                assert got == part[: len(got)], f"seed {seed}, from {start}"
    assert flushed > 1 << 20
