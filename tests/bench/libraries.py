"""The libraries that are measured: how each opens, reads and writes in its own best way.

A subclass says what its library does otherwise than most. `Missing` is raised for what a library
does not have; the reason stands in the report.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import mmap
import os
import shutil
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import Any

At = Callable[[int, int], Awaitable[bytes]]
Span = tuple[int, int]
PAGE = 4096


class Missing(Exception):
    """The library has no such thing."""


class Library:
    """The usual asynchronous library: the methods of a file object, awaited."""

    module_name = ""

    def __init__(self) -> None:
        self.module: Any = importlib.import_module(self.module_name) if self.module_name else None

    @classmethod
    def version(cls) -> str | None:
        """Its version, or None where it is not installed."""
        if not cls.module_name:
            return ""
        if importlib.util.find_spec(cls.module_name) is None:
            return None
        try:
            return importlib.metadata.version(cls.module_name)
        except importlib.metadata.PackageNotFoundError:
            return "?"

    def new_loop(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        return None

    async def open(self, path: str, mode: str, **options: Any) -> Any:
        return await self.module.open(path, mode, **options)

    async def close(self, file: Any) -> None:
        await file.close()

    def read(self, file: Any) -> Callable[..., Awaitable[Any]]:
        return file.read

    def write(self, file: Any) -> Callable[[Any], Awaitable[Any]]:
        return file.write

    def seek(self, file: Any) -> Callable[[int], Awaitable[Any]]:
        return file.seek

    def at(self, file: Any) -> At:
        """Reads (offset, size) of a file that many tasks share."""
        lock, seek, read = asyncio.Lock(), self.seek(file), self.read(file)

        async def read_at(offset: int, size: int) -> bytes:
            async with lock:
                await seek(offset)
                return await read(size)

        return read_at

    def own_at(self, file: Any) -> At:
        """The same of a file that one task has for itself."""
        seek, read = self.seek(file), self.read(file)

        async def read_at(offset: int, size: int) -> bytes:
            await seek(offset)
            return await read(size)

        return read_at

    def lines(self, file: Any) -> AsyncIterable[Any]:
        return file

    async def readlines(self, file: Any) -> Sequence[Any]:
        return await file.readlines()

    def read_many(self, file: Any) -> Callable[[Sequence[Span]], Awaitable[Iterable[bytes]]]:
        raise Missing("no read of many spans")

    def write_many(self, file: Any) -> Callable[[Sequence[tuple[int, bytes]]], Awaitable[Any]]:
        raise Missing("no write of many spans")

    async def whole_files(self, paths: Sequence[str]) -> Sequence[bytes]:
        raise Missing("no way of its own to read whole files")

    async def copy(self, source: str, target: str) -> None:
        reader, writer = await self.open(source, "rb"), await self.open(target, "wb")
        read, write = self.read(reader), self.write(writer)
        while data := await read(1 << 20):
            await write(data)
        await self.close(reader)
        await self.close(writer)

    async def open_direct(self, path: str) -> At:
        """Reads a page at an offset past the page cache."""
        raise Missing("no reads past the page cache")

    @staticmethod
    def page_at(file: Any) -> At:
        """open_direct() of an unbuffered file that seeks and fills a page."""
        page = mmap.mmap(-1, PAGE)

        async def read_at(offset: int, size: int) -> bytes:
            await file.seek(offset)
            await file.readinto(page)
            return page[:8]

        return read_at


class Sync(Library):
    """The blocking calls inside coroutines: they hold the loop all the while."""

    async def open(self, path: str, mode: str, **options: Any) -> Any:
        return open(path, mode, **options)

    async def close(self, file: Any) -> None:
        file.close()

    @staticmethod
    def later(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any) -> Any:
            return function(*arguments)

        return call

    def read(self, file: Any) -> Callable[..., Awaitable[Any]]:
        return self.later(file.read)

    def write(self, file: Any) -> Callable[[Any], Awaitable[Any]]:
        return self.later(file.write)

    def seek(self, file: Any) -> Callable[[int], Awaitable[Any]]:
        return self.later(file.seek)

    def at(self, file: Any) -> At:
        number, pread = file.fileno(), os.pread

        async def read_at(offset: int, size: int) -> bytes:
            return pread(number, size, offset)

        return read_at

    def own_at(self, file: Any) -> At:
        seek, read = file.seek, file.read

        async def read_at(offset: int, size: int) -> bytes:
            seek(offset)
            return read(size)

        return read_at

    async def lines(self, file: Any) -> Any:
        for line in file:
            yield line

    async def readlines(self, file: Any) -> Sequence[Any]:
        return file.readlines()

    def read_many(self, file: Any) -> Any:
        number, pread = file.fileno(), os.pread
        return self.later(lambda spans: [pread(number, size, offset) for offset, size in spans])

    def write_many(self, file: Any) -> Any:
        number, pwrite = file.fileno(), os.pwrite
        return self.later(lambda pairs: [pwrite(number, data, offset) for offset, data in pairs])

    async def whole_files(self, paths: Sequence[str]) -> Sequence[bytes]:
        contents = []
        for path in paths:
            with open(path, "rb") as file:
                contents.append(file.read())
        return contents

    async def copy(self, source: str, target: str) -> None:
        shutil.copyfile(source, target)

    async def open_direct(self, path: str) -> At:
        number, page = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, PAGE)

        async def read_at(offset: int, size: int) -> bytes:
            os.preadv(number, [page], offset)
            return page[:8]

        return read_at


class Ayafileio(Library):
    module_name = "ayafileio"

    def __init__(self) -> None:
        super().__init__()
        if os.environ.get("BENCH_BACKEND"):
            self.module.configure({"backend": os.environ["BENCH_BACKEND"]})

    async def open(self, path: str, mode: str, **options: Any) -> Any:
        return self.module.open(path, mode, **options)

    def at(self, file: Any) -> At:
        return file.read_at

    def read_many(self, file: Any) -> Any:
        return file.read_many

    def write_many(self, file: Any) -> Any:
        if not hasattr(file, "write_many"):
            raise Missing("no write of many spans")
        return file.write_many

    async def whole_files(self, paths: Sequence[str]) -> Sequence[bytes]:
        return await self.module.read_bytes_many(paths)

    async def copy(self, source: str, target: str) -> None:
        await self.module.acopy(source, target)

    async def open_direct(self, path: str) -> At:
        number = os.open(path, os.O_RDONLY | os.O_DIRECT)
        file = self.module.wrap_file(number, "rb", owns_fd=True)
        if not hasattr(file, "readinto_at"):
            return self.page_at(file)
        page = mmap.mmap(-1, PAGE)

        async def read_at(offset: int, size: int) -> bytes:
            await file.readinto_at(offset, page)
            return page[:8]

        return read_at


class Aiofiles(Library):
    module_name = "aiofiles"

    async def open_direct(self, path: str) -> At:
        def opener(name: str, flags: int) -> int:
            return os.open(name, flags | os.O_DIRECT)

        return self.page_at(await self.module.open(path, "rb", buffering=0, opener=opener))


class Aiofile(Library):
    module_name = "aiofile"

    async def open(self, path: str, mode: str, **options: Any) -> Any:
        return await self.module.async_open(path, mode, **options)

    def seek(self, file: Any) -> Callable[[int], Awaitable[Any]]:
        async def seek(offset: int) -> None:
            file.seek(offset)

        return seek

    def at(self, file: Any) -> At:
        read_bytes = file.file.read_bytes
        return lambda offset, size: read_bytes(size, offset)

    own_at = at

    async def readlines(self, file: Any) -> Sequence[Any]:
        return [line async for line in file]


class Blazio(Library):
    """On an event loop of its own."""

    module_name = "blazio"

    def new_loop(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        return self.module.new_event_loop

    def at(self, file: Any) -> At:
        pread = file.pread
        return lambda offset, size: pread(size, offset)

    own_at = at


class Turbofile(Library):
    module_name = "turbofile"

    def at(self, file: Any) -> At:
        return file.read_at

    async def whole_files(self, paths: Sequence[str]) -> Sequence[bytes]:
        return await asyncio.gather(*map(self.module.read_bytes, paths))


class Asyncfiles(Library):
    module_name = "asyncfiles"

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[int, Any] = {}

    async def open(self, path: str, mode: str, **options: Any) -> Any:
        options.pop("encoding", None)
        block = self.module.open(path, mode, **options)
        file = await block.__aenter__()
        self.blocks[id(file)] = block
        return file

    async def close(self, file: Any) -> None:
        await self.blocks.pop(id(file)).__aexit__(None, None, None)

    def seek(self, file: Any) -> Callable[[int], Awaitable[Any]]:
        async def seek(offset: int) -> None:
            file.seek(offset)

        return seek

    async def readlines(self, file: Any) -> Sequence[Any]:
        return [line async for line in file]


class Urio(Library):
    module_name = "urio"

    async def whole_files(self, paths: Sequence[str]) -> Sequence[bytes]:
        return await asyncio.gather(*(self.module.Path(path).read_bytes() for path in paths))


LIBRARIES: dict[str, type[Library]] = {
    "sync": Sync,
    "ayafileio": Ayafileio,
    "aiofiles": Aiofiles,
    "aiofile": Aiofile,
    "blazio": Blazio,
    "turbofile": Turbofile,
    "asyncfiles": Asyncfiles,
    "urio": Urio,
}
