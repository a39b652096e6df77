"""The benchmark measures every row, tells wrong bytes from right ones, and reports; no speed is
judged here.
"""

import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from rows import ROWS  # noqa: E402

# Those that want a file of half a gigabyte are left out, and 128 MiB a write.
NAMES = [row.name for row in ROWS if not row.cold and not row.large and row.name != "looplag_write"]


def bench(*arguments):
    command = [sys.executable, str(HERE / "bench.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    out = bench(folder, "--quick", "--rows", ",".join(NAMES), "--json", folder / "figures.json",
                "--plot", folder / "figures.svg")
    assert out.returncode == 0, out.stderr
    return folder, out.stdout


def test_every_row_is_measured(measured):
    folder, out = measured
    rows = json.loads((folder / "figures.json").read_text())["rows"]
    assert set(rows) >= set(NAMES)
    for name, outcomes in rows.items():
        assert {"sync", "ayafileio"} <= set(outcomes), name
        for label, past in outcomes.items():
            for one in past:
                assert "error" not in one, (name, label, one)
                assert "missing" in one or (one["count"] > 0 and one["seconds"] > 0), (name, label)
        assert out.count(f"\n{name} ") == 1, "a line in the last table"


def test_the_figures_are_drawn(measured):
    folder, _ = measured
    root = xml.etree.ElementTree.parse(folder / "figures.svg").getroot()
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(NAMES) <= set(words)


def test_a_run_is_told_again(measured):
    folder, _ = measured
    again = bench("--report", folder / "figures.json", "--markdown")
    assert again.returncode == 0, again.stderr
    lines = again.stdout.splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == NAMES


def test_wrong_bytes_are_an_error(tmp_path):
    (tmp_path / "data").write_bytes(bytes(64 << 20))
    arguments = ["readat4k_x1", "ayafileio", str(tmp_path), "0.01", "1", "asyncio"]
    out = subprocess.run([sys.executable, str(HERE / "child.py"), *arguments],
                         capture_output=True, text=True, timeout=60)
    assert json.loads(out.stdout) == {"error": "AssertionError: wrong bytes"}


def test_unknown_rows_are_named(tmp_path):
    out = bench(tmp_path, "--rows", "nosuch")
    assert out.returncode != 0 and "nosuch" in out.stderr
