"""The payload beside tf_cnn_benchmarks: the same numbers, and the same speed on one core.

    python tests/bench/payload.py --reference CHECKOUT --python PYTHON                 # speed, step by step in turn
    python tests/bench/payload.py --reference CHECKOUT --python PYTHON --equivalence   # logits with its variables
    python tests/bench/payload.py --reference CHECKOUT --python PYTHON --record …      # what the tests compare with

CHECKOUT is one of tensorflow/benchmarks: 8fb7907 runs on TensorFlow 2.15 as it is, and on 2.16 and newer with tf-keras
of the same version and TF_USE_LEGACY_KERAS=1; f9affd5 runs on 2.3 with Python 3.6. PYTHON has the TensorFlow, for both.
What it lacks for --record (TF-Slim, for mobilenet and nasnet) comes from PYTHONPATH.

Both programs run pinned to one core with one thread, the payload in the environment that it always gives its children.
They take their steps in turn, and CPU seconds are compared, so that other work on the machine hits both alike. Ratios
above 1: the payload is faster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from payload.environment import CPU  # noqa: E402

RECORD = ROOT / "tests" / "payload" / "reference_logits.json"

ABOUT = (
    "What tf_cnn_benchmarks computes with the variables and images of tests/bench/filling.py, two images: `logits` "
    "is tests.bench.filling.digest of the logits in inference, `moving` is digest_changes of the moving averages' "
    "first step in training. Made by tests/bench/payload.py --record: 8fb7907 on TensorFlow 2.15.1; mobilenet and "
    "nasnet: f9affd5 on 2.3.1 with TF-Slim 1.1.0."
)
"""Stands in the recorded file."""

BATCH_SIZES = {"alexnet": 32, "googlenet": 8, "resnet50": 8, "vgg16": 4, "inception3": 4}
EQUIVALENT = ("resnet50", "resnet50_v2", "inception3", "googlenet", "alexnet", "vgg11")
DROPOUT = ("alexnet", "vgg11")
TOLERANCE = 1e-5
WARMUP_STEPS = 3
LEAST_PAIRS = 3
"""Pairs of processes, at least: two processes of the same program differ by more than their own steps do."""


def make_env() -> dict[str, str]:
    """What both programs run in."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def ask(arguments: argparse.Namespace, module: str, *words: str) -> str:
    """Run a module of the bench to its end and return what it printed. Ends this program when it fails."""
    argv = [arguments.python, "-m", f"tests.bench.{module}", *words]
    done = subprocess.run(argv, cwd=ROOT, env=make_env(), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}\n{done.stderr[-4000:]}")
    return done.stdout


class Worker:
    """One of the two programs, waiting for its next step."""

    def __init__(self, python: str, core: int, words: Sequence[str], environment: Mapping[str, str]) -> None:
        reader, writer = os.pipe()
        argv = ["taskset", "-c", str(core), python, "-m", *words, str(writer)]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by end)
        self._process = subprocess.Popen(
            argv, cwd=ROOT, env={**make_env(), **environment}, pass_fds=[writer], text=True, stdin=subprocess.PIPE,
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        os.close(writer)
        self._answers = os.fdopen(reader)

    def step(self) -> float:
        """Let it take one step; CPU seconds. Ends this program when the worker is dead."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        line = self._answers.readline()
        if not line:
            self._log.seek(0)
            sys.exit(f"{self._process.args!r} ended:\n{self._log.read()[-4000:]}")
        return float(json.loads(line)["cpu_s"])

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._answers.close()
        self._log.close()


@contextlib.contextmanager
def start_pair(arguments: argparse.Namespace, model: str, phase: str) -> Iterator[tuple[Worker, Worker]]:
    """(reference, payload), warmed up."""
    cell = [model, phase, str(BATCH_SIZES.get(model, 4))]
    pair: list[Worker] = []
    try:
        pair.append(
            Worker(arguments.python, arguments.core, ["tests.bench.reference", arguments.reference, "step", *cell], {})
        )
        pair.append(Worker(arguments.python, arguments.core, ["tests.bench.ours", "step", *cell], CPU))
        for worker in pair:
            for _ in range(WARMUP_STEPS):
                worker.step()
        yield pair[0], pair[1]
    finally:
        for worker in pair:
            worker.end()


def find_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median by order statistics (normal approximation of the binomial), whatever the shape."""
    ordered = sorted(values)
    n = len(ordered)
    reach = 0.98 * n**0.5
    low = max(0, int(n / 2 - reach))
    high = min(n - 1, int(n / 2 + reach))
    return ordered[low], ordered[high]


def compare_speed(arguments: argparse.Namespace, model: str, phase: str) -> None:
    """Rounds of one step each, in fresh processes after every so many, until the interval is narrow or time is up."""
    pairs = 0
    ratios: list[float] = []
    spent = [0.0, 0.0]
    deadline = time.monotonic() + arguments.limit_s
    low, high = 0.0, float("inf")
    while pairs < LEAST_PAIRS or (high - low > 2 * arguments.width and time.monotonic() < deadline):
        with start_pair(arguments, model, phase) as (reference, ours):
            for round_number in range(arguments.rounds):
                first, second = (reference, ours) if round_number % 2 == 0 else (ours, reference)
                taken = [first.step(), second.step()]
                theirs, mine = taken if first is reference else reversed(taken)
                ratios.append(theirs / mine)
                spent[0] += theirs
                spent[1] += mine
        low, high = find_interval(ratios)
        pairs += 1
    batch, n = BATCH_SIZES.get(model, 4), len(ratios)
    speeds = "  ".join(f"{name} {batch * n / s:8.2f}" for name, s in (("reference", spent[0]), ("payload", spent[1])))
    ratio = f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]"
    print(
        f"{model:<14} {phase:<8} b{batch:<4} {speeds} images/CPU-s   ratio {ratio}, {n} rounds of {pairs} pairs",
        flush=True,
    )


def compare_logits(arguments: argparse.Namespace) -> bool:
    """Print a table; True: all are equal within the tolerance."""
    good = True
    print(f"{'model':<14} {'variables':>9} {'inference':>10} {'training':>10}   largest difference / largest logit")
    for model in arguments.models or EQUIVALENT:
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "reference.npz")
            ask(arguments, "reference", arguments.reference, "logits", model, path)
            answer = json.loads(ask(arguments, "ours", "logits", model, path).splitlines()[-1])
        # With dropout there is nothing to compare in training: every program draws other units.
        trained = None if model in DROPOUT else answer["trained"]
        equal = answer["left"] == 0 and max(answer["inferred"], trained or 0.0) <= TOLERANCE
        good = good and equal
        shown = "dropout" if trained is None else f"{trained:.1e}"
        row = f"{model:<14} {answer['variables']:>9} {answer['inferred']:>10.1e} {shown:>10}"
        print(f"{row}   {'equal' if equal else 'DIFFERENT'}", flush=True)
    return good


def record(arguments: argparse.Namespace) -> None:
    """Add the digests of models to the file that the tests compare with."""
    recorded: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"about": "", "models": {}}
    recorded["about"] = ABOUT
    for line in ask(arguments, "reference", arguments.reference, "digest", *arguments.models).splitlines():
        name, _, digests = line.partition(" ")
        if digests.startswith("{"):
            recorded["models"][name] = json.loads(digests)
    write_record(recorded)


def write_record(recorded: dict[str, Any]) -> None:
    models = recorded["models"]
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(models[name])}" for name in sorted(models))
    RECORD.write_text(f'{{\n "about": {json.dumps(recorded["about"])},\n "models": {{\n{lines}\n }}\n}}\n')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", required=True, metavar="CHECKOUT", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--python", default=sys.executable, help="the interpreter with TensorFlow; default: this one")
    parser.add_argument("--equivalence", action="store_true", help="compare logits, not speed")
    parser.add_argument("--record", action="store_true", help="record digests of --models for the tests")
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--phases", nargs="+", default=["train", "forward"], choices=["train", "forward"])
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="between fresh processes; default: 20")
    parser.add_argument("--width", type=float, default=0.02, help="half the interval to reach; default: 0.02")
    parser.add_argument("--limit-s", type=float, default=600.0, metavar="S", help="at most, for each row; default: 600")
    parser.add_argument("--core", type=int, default=0, metavar="N", help="the core to run on; default: 0")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments)
    elif arguments.equivalence:
        return 0 if compare_logits(arguments) else 1
    else:
        for model in arguments.models or BATCH_SIZES:
            for phase in arguments.phases:
                compare_speed(arguments, model, phase)
    return 0


if __name__ == "__main__":
    sys.exit(main())
