"""configure() and what is told of the backends, against spec/config.toml."""

import asyncio
import os
import pathlib
import platform
import sys
import warnings

import pytest

import ayafileio
from support import BACKENDS, program, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

SPEC = pathlib.Path(__file__).resolve().parents[2] / "spec" / "config.toml"
OPTIONS = tomllib.loads(SPEC.read_text(encoding="utf-8"))["option"]
INTS = [one for one in OPTIONS if one["type"] == "int"]
BOOLS = [one for one in OPTIONS if one["type"] == "bool"]
NAMES = ("io_uring", "linux_aio", "threads", "iocp", "dispatch")
NOT_BUILT = "not part of this build"


@pytest.fixture(autouse=True)
def _defaults():
    ayafileio.reset_config()
    yield
    ayafileio.reset_config()


def named(options):
    return pytest.mark.parametrize("option", options, ids=[one["name"] for one in options])


def quiet(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        ayafileio.configure(options)


def test_defaults():
    assert ayafileio.get_config() == {one["name"]: one["default"] for one in OPTIONS}


@named(INTS)
def test_int_options_take_their_range_and_nothing_else(option):
    name, least, most = option["name"], option["least"], option["most"]
    for value in (least, most, option["default"]):
        quiet({name: value})
        assert ayafileio.get_config()[name] == value
    before = ayafileio.get_config()
    for value in (least - 1, most + 1, 2**70, -(2**70)):
        with pytest.raises(ValueError, match=rf"'{name}' must be from {least} to {most}"):
            quiet({name: value})
    for value in (1.0, "1", None, True):
        with pytest.raises(TypeError, match=rf"'{name}'.*from {least} to {most}"):
            quiet({name: value})
    assert ayafileio.get_config() == before


@named(BOOLS)
def test_bool_options(option):
    for value in (True, False):
        quiet({option["name"]: value})
        assert ayafileio.get_config()[option["name"]] is value
    for value in (1, "yes", None):
        with pytest.raises(TypeError, match=f"'{option['name']}' must be True or False"):
            quiet({option["name"]: value})


@named([one for one in OPTIONS if "deprecated" in one])
def test_deprecated_options_say_what_became_of_them(option):
    with pytest.warns(DeprecationWarning, match=option["deprecated"]) as caught:
        ayafileio.configure({option["name"]: option["default"]})
    assert option["name"] in str(caught[0].message)


@named([one for one in OPTIONS if "deprecated" not in one])
def test_other_options_do_not_warn(option):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ayafileio.configure({option["name"]: option["default"]})


def test_nothing_is_changed_where_one_option_is_refused():
    for wrong in ({"buffer_size": 1}, {"no_such": 1}, {5: 1}, {"backend": "iocp"}):
        with pytest.raises((ValueError, TypeError)):
            ayafileio.configure({"io_worker_count": 3, **wrong})
        assert ayafileio.get_config()["io_worker_count"] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            ayafileio.configure({"io_worker_count": 3, "adaptive_batch": False})
    assert ayafileio.get_config()["io_worker_count"] == 0


def test_unknown_options_are_named_with_the_known_ones():
    with pytest.raises(ValueError, match="'buffersize'.*'buffer_size'"):
        ayafileio.configure({"buffersize": 4096})
    for wrong in (None, [("buffer_size", 4096)], "buffer_size"):
        with pytest.raises(TypeError):
            ayafileio.configure(wrong)


def test_backend_words():
    for wrong in ("", "IO_URING", "uring", "epoll"):
        with pytest.raises(ValueError, match="'backend' must be one of 'auto', 'io_uring'"):
            ayafileio.configure({"backend": wrong})
    for wrong in (1, None, b"threads"):
        with pytest.raises(TypeError, match="'backend'"):
            ayafileio.configure({"backend": wrong})
    ayafileio.configure({"backend": "thread_pool"})
    assert ayafileio.get_config()["backend"] == "threads"
    for foreign, why in ayafileio.get_backend_info()["unused"].items():
        if why == NOT_BUILT:
            with pytest.raises(ValueError, match=NOT_BUILT):
                ayafileio.configure({"backend": foreign})
    if sys.platform == "linux":
        with pytest.raises(ValueError, match=NOT_BUILT):
            ayafileio.configure({"backend": "iocp"})


def test_backend_information(backend):
    info = ayafileio.get_backend_info()
    assert info["backend"] == backend
    assert (
        info["platform"] == {"linux": "linux", "darwin": "macos", "win32": "windows"}[sys.platform]
    )
    assert platform.release() in info["os_version"]
    assert info["is_truly_async"] is (backend not in ("threads", "dispatch"))
    assert info["description"]
    assert set(info["unused"]) == set(NAMES) - {backend}
    assert all(info["unused"].values())
    if sys.platform == "linux":
        assert info["unused"]["iocp"] == NOT_BUILT


def test_auto_takes_the_first_that_works():
    info = ayafileio.get_backend_info()
    for name in ("io_uring", "threads"):
        if name == info["backend"]:
            break
        assert "cannot work here" in info["unused"][name]


def test_stats_count_what_served(backend, digits):
    async def main():
        before = ayafileio.stats()
        async with ayafileio.open(digits, "r+b") as file:
            for _ in range(10):
                await file.read_at(0, 4)
                await file.write_at(0, b"0")
                await file.fsync()
            during = ayafileio.stats()
            assert during["backend"] == backend
            assert during["contexts"] >= 1 and during["in_flight"] == 0
            routes = {"inline", "backend", "fallback", "direct", "poll", "alone"}
            assert set(during["routes"]) == routes
            served = {name: n - before["routes"][name] for name, n in during["routes"].items()}
            assert sum(served.values()) >= 30
            if backend == "io_uring":
                assert served["backend"] >= 10
        return during

    during = run(main())
    after = ayafileio.stats()["routes"]
    assert all(
        after[name] >= n for name, n in during["routes"].items()
    ), "counts outlive their loop"


def test_the_buffer_size_is_that_of_files_opened_later(tmp_path, backend):
    path = tmp_path / "f"

    async def main():
        for size in (512, 5000):
            ayafileio.configure({"buffer_size": size})
            async with ayafileio.open(path, "wb") as file:
                await file.write(b"x" * (size - 1))
                assert path.stat().st_size == 0
                await file.write(b"y" * 2)
                await file.flush()
                assert path.stat().st_size == size + 1

    run(main())


def test_the_worker_count_bounds_the_threads(tmp_path):
    out = program(
        tmp_path,
        "threads",
        """
        ayafileio.configure({"io_worker_count": 2})
        async def main():
            before = len(os.listdir("/proc/self/task"))
            async with ayafileio.open("f", "w+b") as file:
                await asyncio.gather(*[file.write_at(i * 4096, b"x" * 4096) for i in range(500)])
                print(len(os.listdir("/proc/self/task")) - before <= 2)
        asyncio.run(main())
        """,
    )
    assert out == "True\n"


def test_a_backend_that_the_system_refuses(tmp_path):
    out = program(
        tmp_path,
        "auto",
        """
        import ctypes, errno, struct
        libc = ctypes.CDLL(None, use_errno=True)

        # x86-64: io_uring_setup (425) gives EPERM, all else is allowed.
        filters = b"".join(struct.pack("HBBI", *one) for one in (
            (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x50000 | errno.EPERM),
            (0x06, 0, 0, 0x7FFF0000)))
        buffer = ctypes.create_string_buffer(filters, len(filters))
        program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
        libc.prctl(38, 1, 0, 0, 0)
        if os.uname().machine != "x86_64" or libc.prctl(22, 2, program) != 0:
            print("skip")
            sys.exit()

        async def main():
            async with ayafileio.open("f", "w+b") as file:
                await file.write_at(0, b"served")
                return await file.read_at(0, 10)

        assert asyncio.run(main()) == b"served"
        info = ayafileio.get_backend_info()
        print(info["backend"], "|", info["unused"]["io_uring"])
        try:
            ayafileio.configure({"backend": "io_uring"})
        except ValueError as error:
            print(error)
        """,
    )
    if out == "skip\n":
        pytest.skip("no seccomp filter for this machine")
    first, second = out.splitlines()
    assert (
        first.startswith(("threads | ", "dispatch | ")) and "seccomp" in first or NOT_BUILT in first
    )
    assert second.startswith("backend 'io_uring' cannot be used")


def test_a_child_of_a_fork_goes_on_with_the_pool_where_dispatch_was_chosen(tmp_path):
    if ayafileio.get_backend_info()["unused"].get("dispatch", "works") == NOT_BUILT:
        pytest.skip("the Dispatch backend is not part of this build")
    out = program(
        tmp_path,
        "dispatch",
        """
        async def main():
            async with ayafileio.open("f", "w+b") as file:
                await file.write_at(0, b"served")
                return await file.read_at(0, 10)

        def show(who):
            assert asyncio.run(main()) == b"served"
            info = ayafileio.get_backend_info()
            print(who, info["backend"], info["unused"].get("dispatch", ""), sep="|", flush=True)

        show("parent")
        child = os.fork()
        if child != 0:
            assert os.waitpid(child, 0)[1] == 0  # both use one file, and one pipe to print to
        show("child" if child == 0 else "parent")
        """,
    )
    parent, other, third = sorted(out.splitlines(), reverse=True)
    assert parent == other == "parent|dispatch|"
    assert third.startswith("child|threads|cannot work here: ") and "child of a fork" in third


def test_old_helpers():
    ayafileio.set_io_worker_count(3)
    assert ayafileio.get_config()["io_worker_count"] == 3
    with pytest.warns(DeprecationWarning):
        ayafileio.drain_handle_pool()
    ayafileio.drain_buffer_pool()
    assert set(BACKENDS) <= set(NAMES)
    assert os.cpu_count() is None or isinstance(ayafileio.get_capabilities(), dict)
    assert asyncio.iscoroutinefunction(ayafileio.configure) is False
