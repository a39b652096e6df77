"""Sums the JUnit files of a test run: `count.py FOLDER BROKEN`.

BROKEN is how many runs ended without a result; each counts as one failure. What was skipped is
told with its reason. Ends with a plain line
`N passed, N failed, N skipped`, and with status 1 where something failed or nothing passed.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter


def main() -> int:
    folder, broken = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    passed, failed, skipped = 0, broken, 0
    for path in sorted(folder.glob("*.xml")):
        cases = list(ElementTree.parse(path).iter("testcase"))
        bad = sum(c.find("failure") is not None or c.find("error") is not None for c in cases)
        reasons = Counter(
            " ".join(found.get("message", "not told why").split())
            for found in (c.find("skipped") for c in cases)
            if found is not None
        )
        left_out = reasons.total()
        good = len(cases) - bad - left_out
        print(f"   {path.stem}: {good} passed, {bad} failed, {left_out} skipped")
        for reason, count in sorted(reasons.items()):
            print(f"      skipped {count}: {reason[:160]}")
        passed, failed, skipped = passed + good, failed + bad, skipped + left_out
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
