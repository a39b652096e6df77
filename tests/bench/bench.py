"""ayafileio side by side with its peers, the blocking calls and plain C: bench.py FOLDER [options].

Every library that is installed beside it is measured (those that are not are named), each row in a
process of its own, the libraries one after another within a round, so that a slow moment of the
machine hits all. Ratios are made within a round; shown is their median. Nothing here fails by being
slow. FOLDER should be on a real disk; it gets up to 600 MiB of files, which are kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import figures
from rows import ROWS, Row, prepare

HERE = Path(__file__).resolve().parent
LIMIT = "C"
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Participant:
    label: str
    library: str
    python: str
    backend: str = ""


# -- who takes part ----------------------------------------------------------------------------


def installed(python: str) -> dict[str, str | None]:
    out = subprocess.run([python, HERE / "child.py", "--which"], capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"{python} cannot run tests/bench/child.py: {out.stderr.strip()}")
    return json.loads(out.stdout)


def participants(options: argparse.Namespace) -> list[Participant]:
    peers = installed(options.peers)
    taken = [Participant("sync", "sync", sys.executable),
             Participant("ayafileio", "ayafileio", sys.executable, options.backend)]
    for library, version in peers.items():
        if library == "ayafileio" and options.peers != sys.executable and version:
            taken.append(Participant(f"ayafileio {version}", library, options.peers))
        elif version and library not in ("sync", "ayafileio"):
            taken.append(Participant(library, library, options.peers))
    for other in options.python:
        label, _, python = other.partition("=")
        taken.append(Participant(label, "ayafileio", python))
    missing = [library for library, version in peers.items() if version is None]
    if missing:
        print("not installed, so not measured:", ", ".join(missing))
    return taken


def build_limit(folder: str) -> str | None:
    """The C program, or None where it cannot be built."""
    program = f"{folder}/limit"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-std=gnu11", "-o", program, str(HERE / "limit.c"), "-lpthread"]
    for extra in (["-DWITH_URING", "-luring"], []):
        try:
            if subprocess.run([*command, *extra], capture_output=True).returncode == 0:
                return program
        except OSError:
            break
    print("no C compiler, so no plain C")
    return None


# -- measuring ---------------------------------------------------------------------------------


def run(command: list[str], **variables: str) -> Outcome:
    environment = {**os.environ, "PYTHONHASHSEED": "0", **variables}
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=120,
                             env=environment)
        return json.loads(out.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": "no end after two minutes"}
    except (IndexError, ValueError):
        return {"error": (out.stderr.strip().splitlines() or ["no output"])[-1]}


def measure_row(row: Row, taken: list[Participant], options: argparse.Namespace,
                limit: str | None) -> dict[str, list[Outcome]]:
    outcomes: dict[str, list[Outcome]] = {}
    folder = str(options.folder)
    for turn in range(options.rounds):
        if limit and row.limit:
            command = [limit, folder, str(options.seconds), *row.limit]
            outcomes.setdefault(LIMIT, []).append(run(command))
        first = turn % len(taken)  # who comes next meets the pages that one has made dirty
        for one in taken[first:] + taken[:first]:
            past = outcomes.setdefault(one.label, [])
            if (row.only and one.library not in row.only) or (past and "count" not in past[-1]):
                continue  # it will not be there the next time either
            command = [one.python, str(HERE / "child.py"), row.name, one.library, folder,
                       str(options.seconds), str(options.scale), options.loop]
            past.append(run(command, BENCH_BACKEND=one.backend))
    return {label: past for label, past in outcomes.items() if past}


# -- telling -----------------------------------------------------------------------------------


def rate(one: Outcome) -> float:
    """0 where nothing was measured."""
    return one["count"] / one["seconds"] if one.get("count") else 0.0


def rates(past: list[Outcome]) -> list[float]:
    return [found for found in map(rate, past) if found]


def ratio(ours: list[Outcome], others: list[Outcome]) -> float | None:
    """The median over rounds in which both were measured."""
    pairs = zip(map(rate, ours), map(rate, others))
    found = [mine / other for mine, other in pairs if mine and other]
    return statistics.median(found) if found else None


def best_peer(outcomes: dict[str, list[Outcome]]) -> str | None:
    peers = {label: statistics.median(rates(past)) for label, past in outcomes.items()
             if rates(past) and label not in (LIMIT, "sync", "ayafileio")}
    return max(peers, key=lambda label: peers[label]) if peers else None


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def short(rate: float) -> str:
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.4g} k"


def print_row(row: Row, outcomes: dict[str, list[Outcome]]) -> None:
    print(f"\n{row.name}: {row.title}")
    for label, past in outcomes.items():
        if not rates(past):
            last = past[-1]
            print(f"  {label:18} {last.get('missing') or 'error: ' + last.get('error', '?')}")
            continue
        cpu = statistics.median(one["cpu"] / one["count"] * 1e6 for one in past if one.get("count"))
        memory = max(one["rss_kib"] for one in past) / 1024
        lags = [f"{statistics.median(one[key] for one in past):.2f}"
                for key in ("lag_p50_ms", "lag_p99_ms", "lag_max_ms") if key in past[0]]
        print(f"  {label:18} {short(statistics.median(rates(past))):>9}/s"
              f"  {number(ratio(past, outcomes.get('sync', []))):>6} of sync"
              f"  {number(ratio(past, outcomes.get(LIMIT, []))):>5} of C"
              f"  {cpu:8.3g} us of CPU  {memory:5.0f} MiB"
              + (f"  lag {'/'.join(lags)} ms" if lags else ""), flush=True)


def summary(measured: dict[str, dict[str, list[Outcome]]]) -> list[dict[str, Any]]:
    """What stands in the last table: ours against the best peer, the blocking calls and C."""
    lines = []
    for name, outcomes in measured.items():
        ours = outcomes.get("ayafileio", [])
        peer = best_peer(outcomes)
        if not rates(ours):
            continue
        counted = [one for one in ours if one.get("count")]
        lines.append({
            "row": name,
            "rate": statistics.median(rates(ours)),
            "cpu_us": statistics.median(one["cpu"] / one["count"] * 1e6 for one in counted),
            "peer": peer,
            "to_peer": ratio(ours, outcomes[peer]) if peer else None,
            "to_sync": ratio(ours, outcomes.get("sync", [])),
            "to_c": ratio(ours, outcomes.get(LIMIT, [])),
        })
    return lines


def print_summary(lines: Iterable[dict[str, Any]], markdown: bool = False) -> None:
    if markdown:
        print("| row | a second | CPU, us | best peer | x peer | x sync | x C |")
        print("| --- | --: | --: | --- | --: | --: | --: |")
    else:
        print(f"\n{'row':22}{'a second':>11}{'CPU us':>9}  {'best peer':16}{'x peer':>7}"
              f"{'x sync':>8}{'x C':>7}")
    for line in lines:
        ratios = [number(line[key]) for key in ("to_peer", "to_sync", "to_c")]
        rate, cpu, peer = short(line["rate"]), f"{line['cpu_us']:.3g}", line["peer"] or "-"
        if markdown:
            print(f"| `{line['row']}` | {rate} | {cpu} | {peer} | {' | '.join(ratios)} |")
        else:
            print(f"{line['row']:22}{rate:>11}{cpu:>9}  {peer:16}{ratios[0]:>7}{ratios[1]:>8}"
                  f"{ratios[2]:>7}")


# -- the command -------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folder", type=Path, nargs="?", help="where the files go; a temporary one by default")
    add("--rows", default="", help="names or beginnings of names, by commas; --list shows them")
    add("--all", action="store_true", help="the rows with half a million operations too")
    add("--list", action="store_true")
    add("--rounds", type=int, default=2)
    add("--seconds", type=float, default=0.25, help="of each measurement")
    add("--scale", type=float, default=1.0, help="of the counts that rows have")
    add("--quick", action="store_true", help="one round of tiny runs: shows that it works")
    add("--backend", default="", help="of ayafileio: io_uring, threads, ...")
    add("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    add("--peers", default=sys.executable, help="the interpreter that has the other libraries")
    add("--python", action="append", default=[], metavar="LABEL=EXE",
        help="another interpreter that has an ayafileio")
    add("--json", type=Path, help="keeps all figures in this file")
    add("--plot", type=Path, help="draws the ratios to this SVG file")
    add("--report", type=Path, help="measures nothing: tells what --json kept")
    add("--markdown", action="store_true", help="the last table for a document")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.scale = 1, 0.01, 0.002
    return options


def wanted_rows(options: argparse.Namespace) -> list[Row]:
    names = [name for name in options.rows.split(",") if name]
    unknown = [name for name in names if not any(row.name.startswith(name) for row in ROWS)]
    if unknown:
        sys.exit(f"no row begins with {unknown[0]!r}; --list shows all")
    if names:
        return [row for row in ROWS if row.name.startswith(tuple(names))]
    return [row for row in ROWS if options.all or not row.large]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    chosen = wanted_rows(options)
    prepare(str(options.folder), any(row.cold for row in chosen))
    taken = participants(options)
    limit = build_limit(str(options.folder))
    measured = {}
    for row in chosen:
        measured[row.name] = measure_row(row, taken, options, limit)
        print_row(row, measured[row.name])
    return {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "loop": options.loop,
        "backend": options.backend,
        "rounds": options.rounds,
        "rows": measured,
    }


def tell(data: dict[str, Any], options: argparse.Namespace) -> None:
    lines = summary(data["rows"])
    print_summary(lines, options.markdown)
    if options.json and not options.report:
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(figures.draw(lines, data["rows"]))


def in_folder(options: argparse.Namespace, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Runs the work with a folder to use: the one that was named, or one for this once."""
    if options.folder is not None:
        options.folder = options.folder.resolve()
        options.folder.mkdir(parents=True, exist_ok=True)
        return work()
    options.folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        return work()
    finally:
        shutil.rmtree(options.folder)


def main() -> None:
    options = parse()
    if options.list:
        for row in ROWS:
            print(f"{row.name:22} {row.title}{' (--all)' if row.large else ''}")
    elif options.report:
        data = json.loads(options.report.read_text())
        for row in ROWS:
            if row.name in data["rows"] and not options.markdown:
                print_row(row, data["rows"][row.name])
        tell(data, options)
    else:
        tell(in_folder(options, lambda: measure(options)), options)


if __name__ == "__main__":
    main()
