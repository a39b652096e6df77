"""The instruction counts are within their tolerance, and the comparing says what it should.

The counting runs valgrind for a minute; the rest has invented counts.
"""

import json
import pathlib
import shutil

import counts
import pytest

KNOWN = {"this pair": {"read_at": 10000, "write_64": 5000}}


def test_counts_within_the_tolerance_say_nothing():
    assert counts.judge(KNOWN, "this pair", {"read_at": 10300, "write_64": 4850}) == (0, [])


def test_a_count_above_the_tolerance_fails_and_names_path_old_and_new():
    status, lines = counts.judge(KNOWN, "this pair", {"read_at": 10301, "write_64": 5000})
    assert status == 1
    assert lines == ["read_at: 10000 instructions before, 10301 now"]


def test_a_count_below_the_tolerance_asks_to_be_recorded_and_passes():
    status, lines = counts.judge(KNOWN, "this pair", {"read_at": 9699, "write_64": 5000})
    assert status == 0
    assert lines == ["read_at: 10000 instructions before, 9699 now; faster: record it"]


def test_a_path_without_a_recorded_count_fails():
    assert counts.judge(KNOWN, "this pair", {"seek_and_read": 1})[0] == 1


def test_an_unknown_pair_tells_its_counts_and_passes():
    status, lines = counts.judge(KNOWN, "another pair", {"read_at": 99999})
    assert status == 0
    assert lines[0].startswith("recorded, not compared")
    assert json.loads(lines[1]) == {"another pair": {"read_at": 99999}}


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_the_six_hottest_paths_take_no_more_instructions(tmp_path):
    known = json.loads(counts.RECORDED.read_text("utf-8"))
    name = counts.pair()
    counted = counts.count(tmp_path)
    status, lines = counts.judge(known, name, counted)
    print(*lines, sep="\n")
    assert status == 0, "\n".join(lines)
    if name not in known:
        pathlib.Path("build").mkdir(exist_ok=True)
        pathlib.Path("build/counts.json").write_text(lines[1] + "\n", "utf-8")
        pytest.skip(f"counts recorded in build/counts.json, not compared: {name}")
