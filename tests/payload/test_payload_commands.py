"""The command line: by hand with the flags people know, as one file, and what is wrong with a spec in one sentence."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet.bundle import build_bundle
from fleet.model.suite import ModelInfo
from payload.catalog import read_catalog
from payload.errors import judge_death, judge_exception
from payload.flags import add_flags, read_flags
from payload.measure import NotFinite
from payload.spec import describe, read_spec
from tests.payload import bench


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "fleet-payload.pyz"
    path.write_bytes(build_bundle().data)
    path.chmod(0o400)
    return path


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("mode", ["training", "forward-only"])
def test_by_hand_it_prints_the_lines_people_know(archive: Path, mode: str) -> None:
    flags = ["--model=alexnet", "--batch_size", "2", "--num_gpus=1", "--device=cpu", "--num_batches=12"]
    flags += ["--num_warmup_batches=1", *(["--forward_only"] if mode == "forward-only" else ["--forward_only=False"])]
    done = bench.run_payload(*flags, payload=[sys.executable, archive])
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^TensorFlow:  2\.\d+\nModel:       alexnet\n", done.stdout)
    assert f"Mode:        {mode}\n" in done.stdout and "Data format: NHWC\n" in done.stdout
    assert "\nRunning warm up\nDone warm up\nStep\tImg/sec\ttotal_loss\n" in done.stdout
    lines = re.findall(
        r"^(\d+)\timages/sec: (\d+\.\d) \+/- \d+\.\d \(jitter = \d+\.\d\)\t(\d+\.\d{3})$", done.stdout, re.M
    )
    assert [line[0] for line in lines] == ["1", "10"]
    assert all((float(loss) > 0) == (mode == "training") for _, _, loss in lines)
    total = re.search(r"-{64}\ntotal images/sec: (\d+\.\d\d)\n-{64}\n$", done.stdout)
    assert total and 0.5 < float(total[1]) / float(lines[-1][1]) < 2


@pytest.mark.needs("tensorflow")
def test_by_hand_the_classic_timing_is_printed_as_it_was(archive: Path) -> None:
    flags = ["--model=alexnet_conv", "--device=cpu", "--batch_size=2", "--num_batches=12", "--num_warmup_batches=2"]
    done = bench.run_payload(*flags, payload=[sys.executable, archive])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    published = {
        "conv1": [2, 56, 56, 64],
        "pool1": [2, 27, 27, 64],
        "conv2": [2, 27, 27, 192],
        "pool2": [2, 13, 13, 192],
        "conv3": [2, 13, 13, 384],
        "conv4": [2, 13, 13, 256],
        "conv5": [2, 13, 13, 256],
        "pool5": [2, 6, 6, 256],
    }
    assert lines[:8] == [f"{name:<6} {shape}" for name, shape in published.items()]
    steps, result = (
        r"step 0, duration = \d+\.\d{3}\nstep 9, duration = \d+\.\d{3}\n",
        r" across 12 steps, (\S+) \+/- \S+ sec / batch",
    )
    found = re.fullmatch(f"{steps}Forward{result}\n{steps}Forward-backward{result}", "\n".join(lines[8:]))
    assert found and 0 < float(found[1]) < float(found[2])
    # Only forward, if so asked.
    done = bench.run_payload(*flags, "--forward_only", payload=[sys.executable, archive])
    assert "Forward across" in done.stdout and "Forward-backward" not in done.stdout


@pytest.mark.needs("tensorflow")
def test_by_hand_what_is_out_of_the_ordinary_is_said(archive: Path) -> None:
    flags = ["--model=alexnet", "--device=cpu", "--batch_size=2", "--num_batches=10", "--num_warmup_batches=6"]
    flags += ["--num_gpus=2", "--optimizer=momentum", "--variable_update=independent", "--compat", "--precision=bf16"]
    done = bench.run_payload(*flags, payload=[sys.executable, archive])
    assert (done.returncode, done.stderr) == (0, "")
    assert "Batch size:  4 global\n             2 per device\n" in done.stdout
    assert "Devices:     ['/cpu:0', '/cpu:1'] (logical, on the same cores)\n" in done.stdout
    assert "Precision:   bf16\nOptimizer:   momentum\nVariables:   independent\n====" in done.stdout
    # The reference's learning rate: the loss is none after a few steps, and the reference goes on too.
    assert re.search(r"^10\timages/sec: \S+ \+/- \S+ \(jitter = \S+\)\tnan$", done.stdout, re.M)
    flags = ["--model=alexnet", "--device=cpu", "--batch_size=1", "--num_batches=2", "--num_warmup_batches=1"]
    done = bench.run_payload(*flags, "--xla", "--steps_per_call=2", payload=[sys.executable, archive])
    assert done.returncode == 0
    assert "XLA:         on\nA step is:   2 steps in one call\n====" in done.stdout


@pytest.mark.needs("tensorflow")
def test_by_hand_without_a_gpu_it_says_so(archive: Path) -> None:
    done = bench.run_payload("--model=alexnet", "--use_fp16", payload=[sys.executable, archive])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("unsupported (no_gpu): The cell asks for a GPU")
    assert "Precision:   fp16" in done.stdout and "Data format: NCHW" in done.stdout and "512 global" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--model=nonsense", "--device=cpu"], "there is no model nonsense. There are resnet50, googlenet, "),
        ([], "say what to measure: --model NAME"),
        (["--model=resnet", "--device=cpu"], "there is no model resnet; did you mean resnet"),
        (["--model=lenet", "--data_dir=/data"], "--data_dir: images are always synthetic"),
        (["--model=lenet", "--variable_update=parameter_server", "--num_gpus=2"], "parameter_server is for one device"),
        (
            ["--model=lenet", "--device=cpu", "--local_parameter_device=gpu"],
            "variables lie on the --device, which is cpu",
        ),
        (["--model=lenet", "--use_fp16", "--precision=bf16"], "--use_fp16 and --precision=bf16 contradict each other"),
        (["--model=resnet20", "--data_name=imagenet"], "resnet20 is not for its images"),
        (["--model=alexnet", "--batch_size=0"], "argument --batch_size: '0' is no whole number from 1"),
        (["--model=alexnet", "--batch_size=²"], "argument --batch_size: '²' is no whole number from 1"),
        (["--model=alexnet", "--num_batches=" + "9" * 5000], "9' is no whole number from 1 to 999999999"),
        (["--model=alexnet", "--numa_node=-1"], "argument --numa_node: '-1' is no whole number from 0"),
        (["--model=alexnet", "--xla=maybe"], "argument --xla: 'maybe' is neither true nor false"),
        (["--model=alexnet", "--device=tpu"], "argument --device: invalid choice"),
        (["--model=alexnet", "--optimizer=lion"], "argument --optimizer: invalid choice"),
        (["run", "spec.json"], "required: --out"),
    ],
)
def test_wrong_arguments_are_usage(args: list[str], said: str) -> None:
    done = bench.run_payload(*args)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_flags_of_the_original_are_taken_where_they_change_nothing() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    words = "--num_gpus=1 --batch_size=32 --model=alexnet --variable_update=parameter_server --data_name=cifar10"
    words += " --device=cpu --local_parameter_device=cpu --display_every=1 --xla_compile=True"
    (cell,), _ = read_flags(parser.parse_args(words.split()))
    assert (cell.model, cell.variable_update, cell.xla, cell.batch_size) == ("alexnet_cifar10", "replicated", True, 32)


def test_the_catalogue_is_what_the_controller_reads(archive: Path) -> None:
    done = bench.run_payload("models", "--json", payload=[sys.executable, archive])
    models = json.loads(done.stdout)["models"]
    assert models == list(read_catalog().values())
    assert [ModelInfo.model_validate(m).name for m in models] == list(read_catalog())
    table = bench.run_payload("models").stdout
    assert re.search(r"^resnet50 +224x224x3 +25,559,081 +3\.858 +train, forward$", table, re.M)


def test_help_is_fast_and_the_parent_stays_light(archive: Path) -> None:
    def time_help() -> float:
        """Processor seconds: wall time is also what else the machine does."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = bench.run_payload("--help", payload=[sys.executable, archive])
        assert "--num_warmup_batches" in done.stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(time_help() for _ in range(5)) < 0.3
    heavy = (
        "import sys, payload.parent, payload.byhand; sys.exit('numpy' in sys.modules or 'tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", heavy], cwd=bench.ROOT).returncode == 0
    assert archive.stat().st_size < 150_000


BAD_SPECS: list[tuple[dict[str, Any], str]] = [
    ({"schema": "fleet.spec/2"}, "schema is 'fleet.spec/2'; this payload reads fleet.spec/1."),
    ({"alias": ""}, "alias must be a text that is not empty."),
    ({"cells": []}, "cells must be at least one cell."),
    ({"cells": [{"model": "alexnet"}]}, "cells[0] lacks the key 'batch_size'."),
    ({"rules": {**bench.QUICK.model_dump(), "steps": 1}}, "rules.steps must be a whole number from 2."),
    ({"rules": {**bench.QUICK.model_dump(), "max_s": True}}, "rules.max_s must be a number above 0."),
    ({"rules": {**bench.QUICK.model_dump(), "laps": 3}}, "rules has a key 'laps' that this payload does not know."),
    ({"cells": [{**bench.FAST.model_dump(), "device": "tpu"}]}, "cells[0].device must be one of cpu, gpu."),
    ({"cells": [{**bench.FAST.model_dump(), "phase": ["train"]}]}, "cells[0].phase must be one of"),
    ({"cells": [{**bench.FAST.model_dump(), "optimizer": "lion"}]}, "cells[0].optimizer must be one of sgd, momentum"),
    ({"cells": [{**bench.FAST.model_dump(), "steps_per_call": 0}]}, "cells[0].steps_per_call must be a whole number"),
    ({"rules": {**bench.QUICK.model_dump(), "ci_target": -1}}, "rules.ci_target must be a number from 0."),
    ({"rules": {**bench.QUICK.model_dump(), "compat": 1}}, "rules.compat must be true or false."),
    ({"rules": {**bench.QUICK.model_dump(), "intra_threads": 1.5}}, "rules.intra_threads must be a whole number"),
    ({"rules": {**bench.QUICK.model_dump(), "numa_node": -1}}, "rules.numa_node must be null or a whole number"),
    ({"extra": 1}, "the document has a key 'extra' that this payload does not know."),
]


@pytest.mark.parametrize(("changes", "said"), BAD_SPECS)
def test_a_bad_spec_is_one_sentence(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    spec = bench.write_spec(tmp_path, [bench.FAST], changes=changes)
    done = bench.run_payload("run", spec, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{spec}: {said}") and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_spec_of_an_older_controller_is_understood(tmp_path: Path) -> None:
    cell, rules = bench.FAST.model_dump(), bench.QUICK.model_dump()
    for key in ("optimizer", "variable_update", "steps_per_call"):
        del cell[key]
    for key in ("ci_target", "compat", "intra_threads", "inter_threads", "numa_node"):
        del rules[key]
    spec = read_spec(str(bench.write_spec(tmp_path, [bench.FAST], changes={"cells": [cell], "rules": rules})))
    assert describe(spec.cells[0]) == bench.FAST.model_dump()
    assert describe(spec.rules) == bench.QUICK.model_dump()


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"a": NaN}', None])
def test_a_spec_that_is_none_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    spec = tmp_path / "spec.json"
    if content is not None:
        spec.write_bytes(content)
    done = bench.run_payload("run", spec, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{spec}: ") and done.stderr.count("\n") == 1


def test_an_output_directory_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spec = bench.write_spec(tmp_path, [bench.FAST])
    for out in (tmp_path / "file" / "out", Path("/proc/out")):
        done = bench.run_payload("run", spec, "--out", out)
        assert done.returncode == 2
        assert "cannot be written" in done.stderr and str(out) in done.stderr and done.stderr.count("\n") == 1


class ResourceExhaustedError(Exception):
    """Named as TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (MemoryError(), "oom", "host_memory"),
        (
            ResourceExhaustedError("OOM when allocating tensor with shape[9] by allocator GPU_0_bfc"),
            "oom",
            "device_memory",
        ),
        (RuntimeError("Dst tensor is not initialized. [GPU]"), "oom", "device_memory"),
        (ModuleNotFoundError("No module named 'tensorflow'"), "crash", "tensorflow_missing"),
        (RuntimeError("No OpKernel was registered to support Op 'LRN'"), "unsupported", "no_kernel"),
        (ValueError("anything\nelse"), "crash", "exception"),
        (ValueError(""), "crash", "exception"),
    ],
)
def test_what_the_child_raises_gets_a_name(error: Exception, status: str, reason: str) -> None:
    verdict = judge_exception(error, "fp32")
    assert (verdict.status, verdict.reason) == (status, reason)
    assert verdict.message.endswith(".") and "\n" not in verdict.message


@pytest.mark.parametrize(
    "text",
    [
        # As TensorFlow 2.3 to 2.6 tell it, 2.7 to 2.13, and newer ones.
        "no such thing.\nSeen by all\n\t [[node a (defined at f.py:1) ]] [Op:f]\n\nFunction call stack:\nf",
        "2 root error(s) found.\n  (0) no such thing\n\t [[node a]]\n  (1) no other thing\n\t [[node b]]",
        "Graph execution error:\n\nDetected at node 'a'\nNode: 'a'\nno such thing.\n\t [[{{node a}}]] [Op:f]\nHint",
        "Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\n"
        "    File \"f.py\", line 1, in f\n      return a\nNode: 'a'\nno such thing",
        "Graph execution error:\n\nDetected at node a defined at (most recent call last):\n"
        "<stack traces unavailable>\nno such thing\nSeen by all\n\t [[{{node a}}]] [Op:f]",
        "Graph execution error:\n\nDetected at node a defined at (most recent call last):\n"
        '  File "f.py", line 1, in f\n\nno such thing\n\t [[{{node a}}]] [Op:f]',
    ],
)
def test_what_tensorflow_says_is_found_among_its_nodes(text: str) -> None:
    message = judge_exception(ValueError(text), "fp32").message
    assert message.replace("ValueError: ", "") == "TensorFlow failed: no such thing. Look at the end of its output."


@pytest.mark.parametrize(
    ("error", "precision", "said"),
    [
        (NotFinite("loss_not_finite", "The loss is nan."), "fp32", "measure it on another machine"),
        (
            NotFinite("loss_not_finite", "The loss is nan."),
            "fp16",
            "or fp16 is too narrow for the model: measure it in fp32",
        ),
        (RuntimeError("No OpKernel was registered"), "fp32", "Use another image."),
        (RuntimeError("No OpKernel was registered"), "bf16", "Use fp32."),
    ],
)
def test_what_to_do_is_not_what_was_done(error: Exception, precision: str, said: str) -> None:
    assert said in judge_exception(error, precision).message


@pytest.mark.parametrize(
    ("returncode", "output", "oom_killed", "status", "reason"),
    [
        (-9, "", True, "oom", "host_memory"),
        (-9, "", False, "crash", "killed"),
        (-7, "", False, "crash", "bus_error"),
        (-4, "", False, "crash", "illegal_instruction"),
        (-11, "", True, "crash", "segfault"),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", False, "oom", "host_memory"),
        (-6, "F tensorflow/core check failed", False, "crash", "aborted"),
        (-40, "", False, "crash", "signal"),
        (1, "", False, "crash", "exited"),
    ],
)
def test_how_the_child_died_gets_a_name(
    returncode: int, output: str, oom_killed: bool, status: str, reason: str
) -> None:
    verdict = judge_death(returncode, output, oom_killed)
    assert (verdict.status, verdict.reason) == (status, reason)


def test_documents_are_readable_by_the_controller_whatever_the_umask(tmp_path: Path) -> None:
    from payload.files import write_json

    old = os.umask(0o077)
    try:
        write_json(str(tmp_path / "a.json"), {"a": 1})
    finally:
        os.umask(old)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o644
    with pytest.raises(ValueError, match="JSON"):
        write_json(str(tmp_path / "a.json"), {"a": float("nan")})
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}
