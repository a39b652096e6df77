"""`python -m generator`: load, check, render, write. See spec/README.md for the language."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from . import explain, lower, parse
from .check import check
from .model import Spec
from .render import Output, render
from .source import Faults, SpecError, Table, Where, load

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m generator"


def tables(root: Path, folder: str, faults: Faults) -> list[Table]:
    names = sorted(f"{folder}/{path.name}" for path in (root / folder).glob("*.toml"))
    if not names:
        faults.add(Where(folder, 1), "holds no .toml file")
    loaded = [load(root, name, faults) for name in names]
    return [table for table in loaded if table is not None]


def read(root: Path) -> Spec:
    """Every spec file below `root`; raises SpecError with all that is wrong."""
    faults = Faults()
    op_tables = tables(root, "spec/ops", faults)
    backend_tables = tables(root, "spec/backends", faults)
    config = load(root, "spec/config.toml", faults)
    ops = [parse.parse_op(table, faults) for table in op_tables]
    backends = [parse.parse_backend(table, faults) for table in backend_tables]
    options = parse.parse_config(config, faults) if config else ()
    # What a faulty file left out would only be reported once more by those that refer to it.
    faults.finish()
    spec = Spec(tuple(op for op in ops if op), tuple(b for b in backends if b), options)
    check(spec, faults)
    faults.finish()
    return spec


def write(outputs: list[Output], out: Path) -> None:
    for output in outputs:
        path = out / output.path
        old = path.read_text(encoding="utf-8") if path.is_file() else None
        if old != output.text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(output.text, encoding="utf-8", newline="\n")
            print(f"wrote {output.path}")


def compare(outputs: list[Output], out: Path) -> int:
    """Prints what `write` would change; the number of files that it would."""
    changed = 0
    for output in outputs:
        path = out / output.path
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        if old != output.text:
            changed += 1
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), output.text.splitlines(True),
                f"{output.path} (as it is)", f"{output.path} (as the specs say)"))
    if changed:
        print(f"{changed} generated files are not what the specs say; run: {COMMAND}")
    return changed


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true",
                        help="write nothing; print the differences and exit 1 when there are any")
    parser.add_argument("--backend", metavar="NAME", help="write only this backend's file")
    parser.add_argument("--dump", action="store_true", help="print the lowered form")
    parser.add_argument("--explain", metavar="OP", help="print how each backend serves OP")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR",
                        help="where spec/ lies (default: the checkout)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where to write to (default: the same)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    try:
        lowered = lower.lower(read(options.root))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    if options.explain is not None:
        return explain.explain(lowered, options.explain)
    if options.dump:
        print(explain.dump(lowered, options.backend), end="")
        return 0
    outputs = render(lowered)
    if options.backend is not None:
        outputs = [output for output in outputs if output.backend == options.backend]
        if not outputs:
            names = ", ".join(b.backend.name for b in lowered.backends)
            print(f"'{options.backend}' is no backend; there are: {names}", file=sys.stderr)
            return 1
    out = options.out or options.root
    if options.check:
        return 1 if compare(outputs, out) else 0
    write(outputs, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
