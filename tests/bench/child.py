"""One library, one row, one process: child.py ROW LIBRARY FOLDER SECONDS SCALE LOOP.

Prints one line of JSON: operations, seconds, seconds of the processor, KiB of memory at most; or
why there is nothing to tell. `child.py --which` prints the libraries that are installed.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from typing import Any

from libraries import LIBRARIES, Missing
from rows import ROWS, Run


def measure(name: str, library_name: str, run: Run, loop: str) -> dict[str, Any]:
    work = next(row.work for row in ROWS if row.name == name)
    library = LIBRARIES[library_name]()
    factory = library.new_loop()
    if factory is None and loop == "uvloop":
        factory = __import__("uvloop").new_event_loop
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    policy_loop = asyncio.new_event_loop() if factory is None else factory()
    try:
        asyncio.set_event_loop(policy_loop)
        policy_loop.run_until_complete(work(library, run))
        policy_loop.run_until_complete(policy_loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        policy_loop.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"count": run.count, "seconds": run.wall, "cpu": run.cpu, "rss_kib": memory,
            "rss_before_kib": before, **run.extra}


def main() -> None:
    if sys.argv[1] == "--which":
        versions = {name: kind.version() for name, kind in LIBRARIES.items()}
        print(json.dumps(versions))
        return
    name, library, folder, seconds, scale, loop = sys.argv[1:]
    try:
        outcome = measure(name, library, Run(folder, float(seconds), float(scale)), loop)
    except Missing as error:
        outcome = {"missing": str(error)}
    except Exception as error:
        outcome = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
