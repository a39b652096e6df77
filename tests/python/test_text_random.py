"""Random programs on text files: each step gives what the built-in open() gives, whatever the
codec, the newline mode and the size of the pieces that the text is decoded from."""

import random

import pytest

import ayafileio
from support import run

pytestmark = pytest.mark.usefixtures("backend")

LATIN = "ab \n\n\r\t\xe9\xff\x85"
WIDE = "ab \n\n\r\t\xe9\u20ac\u6f22\U00020000\u0d0d\u0a0a"
JAPANESE = "ab \n\n\r\t\u304b\u306a\u6f22"
CODECS = {
    "utf-8": WIDE, "UTF8": WIDE, "utf-8-sig": WIDE, "utf-16": WIDE, "utf-16-le": WIDE,
    "utf-32": WIDE, "utf-7": WIDE, "gb18030": WIDE, "latin-1": LATIN, "cp1252": "ab\n\n\r\xe9",
    "ascii": "ab \n\n\r\t", "cp932": JAPANESE + "\uff71", "euc_jp": JAPANESE,
    "euc_kr": "ab\n\n\r\ud55c\uad6d",
}  # none whose state is large (iso2022_jp): the built-in's tell() fails or crashes with these
HANDLERS = ["strict", "strict", "replace", "ignore", "backslashreplace", "surrogateescape"]
NEWLINES = [None, None, "", "\n", "\r", "\r\n"]
MODES = ["r", "r", "r", "r+", "w+", "a+", "w", "a"]


class Program:
    """One seed: how the file is opened, what is in it, and the steps."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.encoding = self.random.choice(list(CODECS))
        self.alphabet = CODECS[self.encoding]
        self.mode = self.random.choice(MODES)
        self.options = {"encoding": self.encoding, "errors": self.random.choice(HANDLERS),
                        "newline": self.random.choice(NEWLINES)}
        # The pieces that this library decodes; the built-in's are of 8192 bytes in any case.
        self.buffering = self.random.choice([-1, -1, 2, 3, 17, 100])
        text = self.text(self.random.choice([5, 60, 60, 400]))
        if self.random.random() < 0.1:
            text *= self.random.randint(1, 500)
        self.content = text.encode(self.encoding)
        if self.options["errors"] != "strict" and self.random.random() < 0.3:
            at = self.random.randint(0, len(self.content))
            self.content = self.content[:at] + b"\xff\x80" + self.content[at:]
        self.steps = list(self.make_steps())

    def text(self, most):
        return "".join(self.random.choices(self.alphabet, k=self.random.randint(0, most)))

    def make_steps(self):
        last = None
        for _ in range(self.random.randint(3, 14)):
            kind = self.random.choice(
                ["read", "read", "read", "some lines", "write", "mark", "goto", "seek", "other"])
            if kind in ("read", "some lines", "write"):
                use = "write" if kind == "write" else "read"
                if last not in (None, use):
                    yield "seek", 0, 2
                last = use
            if kind == "read":
                yield self.random.choice([
                    ("read",), ("readline",), ("readline",), ("readlines",), ("lines",),
                    ("read", self.random.choice([0, 1, 2, 3, 7, 50, 10_000])),
                    ("readline", self.random.choice([0, 1, 2, 5, 100]))])
            elif kind == "some lines":
                yield "readlines", self.random.choice([0, 1, 10, 100])
                yield "seek", 0  # the built-in's tell() would refuse to answer, or answer wrong
            elif kind == "write":
                if self.random.random() < 0.3:
                    yield "writelines", [self.text(10) for _ in range(self.random.randint(0, 4))]
                else:
                    yield "write", self.text(40)
            elif kind == "mark":
                yield "mark",
            elif kind == "goto":
                last = None
                yield "goto", self.random.randint(0, 20)
            elif kind == "seek":
                last = None
                yield self.random.choice([("seek", 0), ("seek", 0, 1), ("seek", 0, 2)])
            else:
                if last == "read":
                    yield "seek", 0, 2
                yield self.random.choice([
                    ("flush",), ("truncate",), ("truncate", 0), ("newlines",), ("errors",),
                    ("reconfigure", {"line_buffering": True}), ("reconfigure", {"newline": "\r\n"}),
                    ("reconfigure", {"errors": "replace"})])
                last = None
        yield "flush",


def builtin_step(file, marks, name, *arguments):
    if name == "mark":
        marks.append(file.tell())
    elif name == "goto":
        file.seek(marks[arguments[0] % len(marks)] if marks else 0)
    elif name == "lines":
        return list(iter(file.readline, ""))
    elif name == "reconfigure":
        return file.reconfigure(**arguments[0])
    elif name in ("newlines", "errors"):
        return getattr(file, name)
    else:
        result = getattr(file, name)(*arguments)
        return None if name == "seek" else result


async def library_step(file, marks, name, *arguments):
    if name == "mark":
        marks.append(await file.tell())
    elif name == "goto":
        await file.seek(marks[arguments[0] % len(marks)] if marks else 0)
    elif name == "lines":
        return [line async for line in file]
    elif name == "reconfigure":
        return await file.reconfigure(**arguments[0])
    elif name in ("newlines", "errors"):
        return getattr(file, name)
    else:
        result = await getattr(file, name)(*arguments)
        return None if name == "seek" else result


async def compare(program, ours, theirs):
    with open(theirs, program.mode, **program.options) as expected:
        async with ayafileio.open(ours, program.mode, buffering=program.buffering,
                                  **program.options) as file:
            marks, expected_marks = [], []
            for step in program.steps:
                value = failure = None
                try:
                    value = builtin_step(expected, expected_marks, *step)
                except (OSError, ValueError) as error:
                    failure = type(error)
                if step[0] == "newlines" and len(program.content) > 2:
                    continue  # what was seen so far depends on the size of the pieces
                try:
                    result = await library_step(file, marks, *step)
                except (OSError, ValueError) as error:
                    assert failure is type(error), (step, error, value)
                    if failure is UnicodeDecodeError:
                        break  # where that leaves the file depends on the size of the pieces
                    continue
                if failure is UnicodeDecodeError and program.buffering > 0:
                    break  # the built-in has met it further on
                assert failure is None, (step, failure, result)
                assert result == value, step
                if step[0] == "flush":
                    assert ours.read_bytes() == theirs.read_bytes()
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("batch", range(8))
def test_programs(tmp_path, batch):
    async def main():
        for seed in range(batch * 150, batch * 150 + 150):
            program = Program(seed)
            ours, theirs = tmp_path / f"{seed}-ours", tmp_path / f"{seed}-theirs"
            ours.write_bytes(program.content)
            theirs.write_bytes(program.content)
            try:
                await compare(program, ours, theirs)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {program.mode} {program.options} "
                                     f"buffering={program.buffering} {program.content[:200]!r} "
                                     f"{program.steps}\n{error}") from None

    run(main(), 120)
