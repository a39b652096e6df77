"""Every example of spec/ops through Python, on every backend."""

import errno
import json
import os
import pathlib
import stat

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = [
    example
    for example in json.loads((ROOT / "generated" / "examples.json").read_text(encoding="utf-8"))
    if example["surface"] != "library"  # those are run in C alone
]

# Stream operations are reached by these methods; `open` and `close` by opening and closing.
STREAM_METHODS = {
    "read": "read",
    "seek_extent": "seek",
    "truncate": "truncate",
    "write": "write",
}
# What a buffered stream writes, and where it goes, comes by these calls.
GATHERING = ("writev", "writev_at")
OPEN_MODES = {
    ("read", False, False): "rb",
    ("write", True, False): "ab",
    ("write", True, True): "xb",
    ("write", False, True): "wb",
}


def octets(value):
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return [octets(one) for one in value] if isinstance(value, list) else value


class World:
    """What an example is called on: a file, pipe or directory, and a name beside it."""

    def __init__(self, folder, example):
        self.example = example
        self.path = folder / "file"
        self.peer = None
        self.content = octets(example["file"])
        self.beside = example["other"]
        self.other = folder / example["call"][self.beside["param"]] if self.beside else None
        if example["kind"] == "file":
            self.path.write_bytes(self.content)
        elif example["kind"] == "directory":
            self.path.mkdir()
        if "other_file" in example:
            self.other.write_bytes(octets(example["other_file"]))
        elif self.beside and self.beside["type"] == "handle":
            self.other.write_bytes(b"")

    async def open(self):
        if self.example["kind"] == "pipe":
            out, into = os.pipe()
            if self.example["writes"]:
                self.peer = os.fdopen(out, "rb")
                return ayafileio.wrap_file(into, "wb", owns_fd=True)
            os.write(into, self.content)
            os.close(into)
            return ayafileio.wrap_file(out, "rb", owns_fd=True)
        if self.example["kind"] == "directory":
            return ayafileio.wrap_file(os.open(self.path, os.O_RDONLY), "rb", owns_fd=True)
        buffering = -1 if self.example["op"] in GATHERING else 0
        return await ayafileio.open(self.path, "r+b", buffering=buffering)

    def check_after(self):
        example = self.example
        if "after" in example:
            content = self.peer.read() if self.peer else self.path.read_bytes()
            assert content == octets(example["after"])
        if "after_other" in example:
            assert self.other.read_bytes() == octets(example["after_other"])
        if example.get("becomes"):
            try:
                is_directory = stat.S_ISDIR(self.path.lstat().st_mode)
                became = "directory" if is_directory else "file"
            except FileNotFoundError:
                became = "gone"
            assert became == example["becomes"]


async def arguments(world, opened):
    given = {name: octets(value) for name, value in world.example["call"].items()}
    for name in world.example["buffers"]:
        given[name] = bytearray(b"\xa5" * given[name])
    if world.beside:
        name = world.beside["param"]
        given[name] = world.other
        if world.beside["type"] == "handle":
            given[name] = await ayafileio.open(world.other, "r+b", buffering=0)
            opened.append(given[name])
    return given


def check_result(example, result, given):
    returns = example["returns"]
    if returns == "stat":
        assert result.st_size == example["result"]
    elif returns in ("count", "bytes", "list"):
        assert result == octets(example["result"])
    elif example["surface"] == "method":
        assert result is None
    if "filled" in example:
        (buffer,) = (given[name] for name in example["buffers"])
        filled = octets(example["filled"])
        assert buffer == filled + b"\xa5" * (len(buffer) - len(filled))


async def call_method(world, opened):
    example = world.example
    given = await arguments(world, opened)
    if example["on"] != "file":
        function = getattr(ayafileio, example["op"])
        result = await (
            function(world.path, **given) if example["on"] == "path" else function(**given)
        )
    else:
        opened.append(await world.open())
        result = await getattr(opened[-1], example["op"])(**given)
    return result, given


async def gather(file, data, offset=None):
    pieces = octets(data)
    if offset is not None:
        await file.seek(offset)
    await file.writelines(pieces)
    await file.flush()
    return sum(map(len, pieces))


async def call_stream(world, opened):
    example = world.example
    if example["op"] == "open":
        call = example["call"]
        key = (call["access"], call.get("create", False), call.get("exclusive", False))
        if call.get("truncate"):
            key = ("write", False, True)
        opened.append(await ayafileio.open(world.path, OPEN_MODES[key]))
        return None, {}
    opened.append(await world.open())
    if example["op"] == "close":
        return await opened[-1].close(), {}
    if example["op"] in GATHERING:
        return await gather(opened[-1], **example["call"]), {}
    given = [octets(value) for value in example["call"].values()]
    if example["op"] == "seek_extent":
        given[1:] = [os.SEEK_HOLE if given[1:] == [True] else os.SEEK_DATA]
    method = getattr(opened[-1], STREAM_METHODS[example["op"]])
    return await method(*given), {}


async def play(world):
    example, opened = world.example, []
    call = call_method if example["surface"] == "method" else call_stream
    try:
        if "error" in example:
            with pytest.raises(OSError) as caught:
                await call(world, opened)
            wanted = getattr(errno, example["error"])
            # io.UnsupportedOperation carries an errno only where the system gave one.
            assert caught.value.errno in (wanted, None), caught.value
        else:
            result, given = await call(world, opened)
            check_result(example, result, given)
    finally:
        for file in opened:
            await file.close()
    world.check_after()


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e['where']}-{e['op']}" for e in EXAMPLES])
def test_example(example, tmp_path):
    if (example["op"], example["kind"], example.get("error")) == ("truncate", "file", "EINVAL"):
        pytest.skip("a negative size is refused by the built-in as well, before any call")
    run(play(World(tmp_path, example)))


def test_every_generated_method_has_its_documentation():
    methods = {e["op"] for e in EXAMPLES if e["surface"] == "method" and e["on"] == "file"}
    for name in methods:
        method = getattr(ayafileio.AsyncFile, name)
        assert method.__doc__ and method.__text_signature__.startswith("($self")
    functions = {e["op"] for e in EXAMPLES if e["surface"] == "method" and e["on"] != "file"}
    for name in functions:
        assert getattr(ayafileio, name).__doc__ and name in ayafileio.__all__
