"""Instructions an operation takes on the six hottest paths, by callgrind: `counts.py [--record]`.

Counts do not depend on the machine's load, so a small tolerance holds. They do depend on the
compiler and on the interpreter: counts.json has those of each pair, and a pair that is not in it
is told and not compared. `--record` writes those of this pair.

What is counted is a release build of its own whose turn has no budget: a budget in time would be
spent at another operation in each run. No open is counted: valgrind 3.19 does not know openat2,
so under it every open goes to a thread; seek and read stand for the short operations instead.
"""

import asyncio
import gc
import hashlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = pathlib.Path(__file__).with_suffix(".json")
TOLERANCE = 0.03
OPERATIONS = 2000
PADDINGS = (0, 1900, 3300)
NO_BUDGET = "-Dc_args=-DTURN_BUDGET_NS=1000000000000LL"
BUILD_OPTIONS = ("-Dbuildtype=release", "-Db_ndebug=true", NO_BUDGET)
# A read takes other memory where it would lie badly to a page, so many different places are used.
SIZES = [1500 + 41 * (i * 23 % 61) for i in range(61)]
KEPT = 37
LINE = b"a line of text of forty-eight bytes, end incl.\r\n"


# -- the programs, which run under valgrind --------------------------------------------------------


async def read_at(f, count):
    kept = [b""] * KEPT
    for i in range(count):
        kept[i % KEPT] = await f.read_at(0, SIZES[i % len(SIZES)])


async def gather_1000_read_at(f, count):
    for _ in range(count // 1000):
        await asyncio.gather(*[f.read_at(i * 64, 64) for i in range(1000)])


async def sequential_read(f, count):
    kept = [b""] * KEPT
    await f.seek(0)
    for i in range(count):
        kept[i % KEPT] = await f.read(SIZES[i % len(SIZES)])


async def write_64(f, count):
    data = b"w" * 64
    for _ in range(count):
        await f.write(data)


async def text_lines(f, count):
    await f.seek(0)
    async for _ in f:
        count -= 1
        if not count:
            break


async def seek_and_read(f, count):
    kept = [b""] * KEPT
    for i in range(count):
        await f.seek(i % 7 << 12)
        kept[i % KEPT] = await f.read(SIZES[i % len(SIZES)])


PATHS = {
    "read_at": (read_at, "rb"),
    "gather_1000_read_at": (gather_1000_read_at, "rb"),
    "sequential_read": (sequential_read, "rb"),
    "write_64": (write_64, "wb"),
    "text_lines": (text_lines, "r"),
    "seek_and_read": (seek_and_read, "rb"),
}


async def run_programs(folder):
    """Each path once to warm up, and once between two calls of getppid(), where callgrind dumps."""
    import ayafileio

    source = folder / "source"
    source.write_bytes(LINE * (OPERATIONS * 4096 // len(LINE) + 1))
    for program, mode in PATHS.values():
        path = folder / "target" if mode == "wb" else source
        async with ayafileio.open(path, mode) as f:
            await program(f, OPERATIONS)
            gc.collect()
            os.getppid()
            await program(f, OPERATIONS)
            os.getppid()


# -- building, running and comparing ---------------------------------------------------------------


def build(folder):
    """Builds the package for counting; returns the folder to import it from."""
    tools = pathlib.Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    for command in (
        ["meson", "setup", str(folder / "build"), str(ROOT), *BUILD_OPTIONS],
        ["meson", "compile", "-C", str(folder / "build")],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    package = folder / "site" / "ayafileio"
    shutil.copytree(ROOT / "python" / "ayafileio", package)
    for path in (folder / "build" / "python").glob("_ayafileio*.so"):
        shutil.copy(path, package)
    return package.parent


def count(folder):
    """The instructions an operation takes, by path; `folder` is for the build and the files.

    Where things lie in memory still moves a count a little: the median of several layouts is what
    is compared.
    """
    site = build(folder)
    runs = [count_layout(folder, site, "x" * size) for size in PADDINGS]
    return {name: statistics.median(run[name] for run in runs) for name in PATHS}


def count_layout(folder, site, padding):
    environment = {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(site),
        "AYA_PADDING": padding,
    }
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    command = [*fixed, "valgrind", "--tool=callgrind", "--dump-before=getppid"]
    command += [f"--callgrind-out-file={folder / 'out'}", sys.executable, __file__]
    done = subprocess.run(
        [*command, "--program", str(folder)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    # Dump 1 ends at the first getppid(); from then on every second one is a path's.
    return {
        name: round(total_of(folder / f"out.{2 * place}") / OPERATIONS)
        for place, name in enumerate(PATHS, 1)
    }


def total_of(path):
    for line in path.read_text().splitlines():
        if line.startswith(("totals:", "summary:")):
            return int(line.split()[1])
    raise RuntimeError(f"{path} has no total")


def pair():
    """Names the interpreter's build and the compiler."""
    compiler = os.environ.get("CC", "cc").split()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True)
    what = f"{sys.version}\n{sysconfig.get_config_var('CONFIG_ARGS')}"
    made = hashlib.sha256(what.encode()).hexdigest()[:12]
    python = f"{platform.python_implementation()} {platform.python_version()} {made}"
    return f"{python}, {platform.machine()}, {version.stdout.splitlines()[0]}"


def compare(recorded, counted):
    """What to say of each path that moved: those that fail, and those that are only faster."""
    failures, faster = [], []
    for name, new in counted.items():
        old = recorded.get(name)
        if old is None:
            failures.append(f"{name}: {new} instructions, none recorded")
        elif new > old * (1 + TOLERANCE):
            failures.append(f"{name}: {old} instructions before, {new} now")
        elif new < old * (1 - TOLERANCE):
            faster.append(f"{name}: {old} instructions before, {new} now; faster: record it")
    return failures, faster


def judge(known, name, counted):
    """Returns the status, 0 or 1, and the lines to print."""
    if name not in known:
        return 0, [f"recorded, not compared: no counts of {name}", json.dumps({name: counted})]
    failures, faster = compare(known[name], counted)
    return int(bool(failures)), failures + faster


def main():
    if sys.argv[1:2] == ["--program"]:
        gc.disable()
        asyncio.run(run_programs(pathlib.Path(sys.argv[2])))
        return 0
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="aya-counts-") as folder:
        counted = count(pathlib.Path(folder))
    for name, instructions in counted.items():
        print(f"{instructions:>8} instructions: {name}")
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if "--record" in sys.argv[1:]:
        known[pair()] = counted
        RECORDED.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
        print(f"recorded: {pair()}")
        return 0
    status, lines = judge(known, pair(), counted)
    print("\n".join(lines or [f"all within {TOLERANCE:.0%} of what is recorded"]))
    return status


if __name__ == "__main__":
    sys.exit(main())
