"""The payload where nothing is as it should be: its streams, limits, directory, child and spec. Without TensorFlow."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.bundle import build_bundle
from fleet.model.result import CellResult
from payload.spec import BadSpec, read_spec
from tests.payload import bench

BROKEN = "raise ImportError('planted')\n"


def plant(directory: Path, source: str) -> dict[str, str]:
    """The environment in which this is TensorFlow."""
    package = directory / "planted" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    return {**os.environ, "PYTHONPATH": str(package.parent)}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "payload.pyz"
    path.write_bytes(build_bundle().data)
    return path


def measure(
    archive: Path, directory: Path, source: str = BROKEN, preexec: Callable[[], None] | None = None
) -> CellResult:
    """The document of a cell that TensorFlow cannot be loaded for."""
    environment = plant(directory, source)
    spec = bench.write_spec(directory, [bench.FAST])
    argv = [sys.executable, str(archive), "run", str(spec), "--out", str(directory / "out")]
    done = subprocess.run(argv, env=environment, preexec_fn=preexec, timeout=60)
    assert done.returncode == 0
    (cell,) = bench.read_cells(directory / "out")
    return cell


def close(*descriptors: int) -> Callable[[], None]:
    def close_all() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close_all


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_streams_that_are_closed_cost_nothing(closed: tuple[int, ...], archive: Path, tmp_path: Path) -> None:
    cell = measure(archive, tmp_path, preexec=close(*closed))
    assert (cell.reason, "planted" in (cell.message or "")) == ("tensorflow_missing", True)


def test_a_bad_spec_is_a_2_where_nobody_can_be_told(archive: Path) -> None:
    argv = [sys.executable, str(archive), "run", "/nowhere", "--out", "/nowhere"]
    assert subprocess.run(argv, preexec_fn=close(0, 1, 2), timeout=60).returncode == 2


@pytest.mark.parametrize("line", [b"\xff", b"text", b"5", b"[]", b"{}", b'{"event": 5}', b"[" * 5000])
def test_what_a_library_writes_to_the_report_is_overheard(line: bytes, archive: Path, tmp_path: Path) -> None:
    find = "int(open('/proc/self/cmdline').read().split('\\0')[-2])"
    cell = measure(archive, tmp_path, f"import os\nos.write({find}, {line!r} + b'\\n')\n{BROKEN}")
    assert cell.reason == "tensorflow_missing"


@pytest.mark.parametrize("most", [5, 6, 7, 10])
def test_a_child_that_may_open_no_files_says_what_to_raise(most: int, archive: Path, tmp_path: Path) -> None:
    limit = (most, most)
    cell = measure(archive, tmp_path, preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit))
    assert (cell.status, cell.reason) == ("crash", "file_limit")
    assert "ulimit -n" in (cell.message or "")


@pytest.mark.parametrize("flags", [["-O"], ["-I"], ["-W", "error"]])
def test_python_s_own_flags_change_nothing(flags: list[str], archive: Path, tmp_path: Path) -> None:
    environment = plant(tmp_path, BROKEN) | {"LC_ALL": "C", "PYTHONHASHSEED": "0"}
    environment.pop("TERM", None)
    directory = tmp_path / "a b\n\udcff\u00f6"
    directory.mkdir()
    shutil.copy(archive, directory / "p.pyz")
    spec = bench.write_spec(directory, [bench.FAST])
    words = ["run", str(spec), "--out", str(directory / "out")]
    argv = [sys.executable, *flags, str(directory / "p.pyz"), *words]
    done = subprocess.run(argv, env=environment, cwd="/proc", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert bench.read_cells(directory / "out")[0].reason == "tensorflow_missing"


def test_a_directory_that_is_gone_is_no_place_to_start_from(archive: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    def leave() -> None:
        os.chdir(gone)
        gone.rmdir()

    cell = measure(archive, tmp_path, preexec=leave)
    assert cell.reason == "tensorflow_missing"


@pytest.mark.parametrize(
    ("words", "end", "status", "said"),
    [
        (["models", "--json"], "left", 141, b""),
        (["models", "--json"], "full", 1, b"standard output cannot be written: No space left on device.\n"),
        (["models", "--json"], "closed", 0, b""),
        (["models"], "left", 141, b""),
    ],
)
def test_who_prints_takes_any_end_of_its_reader(
    words: list[str], end: str, status: int, said: bytes, archive: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(
            [sys.executable, str(archive), *words],
            stdout={"left": writer, "full": full, "closed": None}[end],
            stderr=subprocess.PIPE,
            preexec_fn=close(1) if end == "closed" else None,
            timeout=60,
        )
    finally:
        os.close(writer)
        os.close(full)
    assert (done.returncode, done.stderr) == (status, said)


@pytest.mark.parametrize("key", ["warmup_steps", "warmup_s", "steps", "max_s", "cell_timeout_s", "numa_node"])
@pytest.mark.parametrize("value", ["1" + "0" * 400, "NaN", "Infinity", "-1e999", "1e300", '"1"', "[]"])
def test_a_rule_is_a_number_that_can_be(key: str, value: str, tmp_path: Path) -> None:
    spec = bench.write_spec(tmp_path, [bench.FAST])
    document = json.loads(spec.read_text())
    document["rules"][key] = "HERE"
    spec.write_text(json.dumps(document).replace('"HERE"', value))
    with pytest.raises(BadSpec, match=rf"rules\.{key} must be"):
        read_spec(str(spec))


def test_a_spec_that_is_nested_without_end_is_one_sentence(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text("[" * 200_000)
    with pytest.raises(BadSpec, match="is not JSON"):
        read_spec(str(spec))
