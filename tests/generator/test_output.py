"""What the generator writes: golden C of a tiny spec, no drift, the same under every hash seed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import support

GOLDEN = support.HERE / "golden"
# Set to 1 to take the present output as golden; the change is then reviewed as a diff.
UPDATE = os.environ.get("AYA_UPDATE_GOLDEN") == "1"
FILES = [
    "generated/aya_ops.h", "generated/aya_ops.c", "generated/aya_inline.c",
    "generated/aya_backends.c", "generated/aya_config.c", "generated/aya_python_ops.c",
    "generated/aya_examples.c", "generated/aya_pool.c", "generated/aya_ring.c",
    "generated/aya_block.c", "generated/aya_port.c", "generated/aya_queue.c",
]


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("base")
    ended = support.run("--root", str(support.BASE), "--out", str(out))
    assert ended.returncode == 0, ended.stderr
    return out


@pytest.mark.parametrize("name", FILES)
def test_golden_output_of_the_base_spec(base: Path, name: str) -> None:
    golden = GOLDEN / Path(name).name
    if UPDATE:
        golden.write_bytes((base / name).read_bytes())
    assert (base / name).read_text() == golden.read_text()


@pytest.mark.parametrize("option, golden", [
    (["--dump"], "dump.txt"),
    (["--explain", "put"], "explain.txt"),
    (["--explain", "get_many"], "explain-group.txt"),
])
def test_golden_text_of_the_base_spec(option: list[str], golden: str) -> None:
    ended = support.run("--root", str(support.BASE), *option)
    assert (ended.returncode, ended.stderr) == (0, "")
    if UPDATE:
        (GOLDEN / golden).write_text(ended.stdout)
    assert ended.stdout == (GOLDEN / golden).read_text()


def test_generated_files_are_what_the_specs_say() -> None:
    ended = support.run("--check")
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"


def test_check_shows_the_difference_and_the_command(base: Path) -> None:
    path = base / "generated/aya_ring.c"
    before = path.read_text()
    path.write_text(before.replace("(uint32_t)size", "(uint32_t)sise"))
    ended = support.run("--root", str(support.BASE), "--out", str(base), "--check")
    path.write_text(before)
    assert ended.returncode == 1
    assert "-    sqe->len = (uint32_t)sise;\n+    sqe->len = (uint32_t)size;\n" in ended.stdout
    assert ended.stdout.endswith("run: python -m generator\n")


def test_check_writes_nothing(tmp_path: Path) -> None:
    ended = support.run("--root", str(support.BASE), "--out", str(tmp_path), "--check")
    assert ended.returncode == 1
    assert tree(tmp_path) == {}


def test_output_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    for seed in ("1", "4242"):
        support.run("--out", str(tmp_path / seed), seed=seed)
    assert tree(tmp_path / "1") == tree(tmp_path / "4242") != {}


def test_output_names_no_machine_path_and_no_date(base: Path) -> None:
    for name, data in tree(base).items():
        text = data.decode()
        assert str(support.ROOT) not in text and "/home/" not in text, name
        assert "/tmp" not in text and " 202" not in text, name


def test_one_backend_alone(base: Path, tmp_path: Path) -> None:
    ended = support.run("--root", str(support.BASE), "--out", str(tmp_path), "--backend", "ring")
    assert ended.returncode == 0
    written = tree(tmp_path)
    assert list(written) == ["generated/aya_ring.c"]
    assert written["generated/aya_ring.c"] == (base / "generated/aya_ring.c").read_bytes()


@pytest.mark.parametrize("option, message", [
    (["--backend", "rink"], "'rink' is no backend; there are: ring, port, queue, pool, block\n"),
    (["--explain", "fetch"], "'fetch' is no operation; there are: get, get_many, put, swap\n"),
])
def test_unknown_names_on_the_command_line(option: list[str], message: str) -> None:
    ended = support.run("--root", str(support.BASE), *option)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", message)


def test_lines_have_at_most_100_columns(base: Path) -> None:
    for root in (base, support.ROOT):
        for path in [*root.glob("generated/*.c"), *root.glob("generated/*.h")]:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert len(line) <= 100, f"{path.name}:{number}"
