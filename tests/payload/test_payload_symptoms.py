"""Errors people meet, as TensorFlow, CUDA and NCCL printed them in public reports, and what fleet makes of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fleet.model.result import WITHOUT_GPU
from fleet.model.suite import Cell
from payload.errors import Verdict, explain
from payload.symptoms import SYMPTOMS, find_symptom
from tests.payload import bench

DIAGNOSTICS = "tensorflow/stream_executor/cuda/cuda_diagnostics.cc"
DRIVER = "tensorflow/compiler/xla/stream_executor/cuda/cuda_driver.cc:266] failed call to cuInit"

NO_GPU = [
    (
        "driver_upgraded_no_reboot",
        f"2021-09-13 23:57:29.694695: E {DIAGNOSTICS}:306] kernel version 460.56.0 does not match DSO version 470.57.2 "
        "-- cannot find working devices in this configuration",
    ),
    ("driver_upgraded_no_reboot", "Failed to initialize NVML: Driver/library version mismatch"),
    (
        "driver_too_old",
        f"2024-03-13 01:12:03.781864: E {DRIVER}: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility was "
        "attempted on non supported HW",
    ),
    (
        "driver_too_old",
        "CUDA runtime implicit initialization on GPU:0 failed. Status: CUDA driver version is insufficient for CUDA "
        "runtime version",
    ),
    (
        "fabric_manager",
        "2024-11-12 15:37:25.005059: E external/xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to "
        "cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
    ),
    ("gpu_exclusive", "CUDA runtime error: all CUDA-capable devices are busy or unavailable"),
    ("nvml_permissions", "Failed to initialize NVML: Insufficient Permissions"),
    ("gpu_lost_from_container", "Failed to initialize NVML: Unknown Error"),
    (
        "driver_not_loaded",
        f"2018-04-20 22:28:17.493738: I {DIAGNOSTICS}:145] kernel driver does not appear to be running on this host "
        "(gpu01): /proc/driver/nvidia/version does not exist",
    ),
    (
        "driver_not_loaded",
        "2019-11-13 15:03:24.658577: W tensorflow/stream_executor/platform/default/dso_loader.cc:55] Could not load "
        "dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file: No such file or "
        "directory\n2019-11-13 15:03:24.658655: E tensorflow/stream_executor/cuda/cuda_driver.cc:318] failed call to "
        "cuInit: UNKNOWN ERROR (303)",
    ),
    ("gpu_hidden", f"2020-07-11 13:45:51.005333: E {DRIVER}: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"),
    ("cuda_unknown_error", f"2021-04-21 09:26:54.711699: E {DRIVER}: CUDA_ERROR_UNKNOWN: unknown error"),
    (
        "gpu_libraries_missing",
        "2020-08-24 11:08:28.568905: W tensorflow/core/common_runtime/gpu/gpu_device.cc:1753] Cannot dlopen some GPU "
        "libraries. Please make sure the missing libraries mentioned above are installed properly if you would like to "
        "use GPU.\nSkipping registering GPU devices...",
    ),
    ("cuda_init", f"2017-03-05 11:00:00.000000: E {DRIVER}: CUresult(-1)"),
]
"""(reason, what a child printed before TensorFlow saw no GPU)"""

CRASHES = [
    (
        "gpu_fault",
        "2021-08-05 11:50:49.209319: E tensorflow/stream_executor/cuda/cuda_event.cc:29] Error polling for event "
        "status: failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
    ),
    (
        "gpu_fault",
        "InternalError: Could not synchronize CUDA stream: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    ),
    (
        "gpu_unsupported_by_build",
        "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] 'cuModuleLoadData(&module, data)' "
        "failed with 'CUDA_ERROR_INVALID_PTX'\n"
        "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] "
        "'cuModuleGetFunction(&function, module, kernel_name)' failed with 'CUDA_ERROR_INVALID_HANDLE'",
    ),
    (
        "cudnn_mismatch",
        "E tensorflow/stream_executor/cuda/cuda_dnn.cc:378] Loaded runtime CuDNN library: 7101 (compatibility version "
        "7100) but source was compiled with 7003 (compatibility version 7000).",
    ),
    ("cudnn_mismatch", "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.  CuDNN library needs"),
    (
        "cudnn_init",
        "UnknownError:  Failed to get convolution algorithm. This is probably because cuDNN failed to initialize, so "
        "try looking to see if a warning log message was printed above.",
    ),
    ("cudnn_init", "UNIMPLEMENTED: DNN library is not found."),
    (
        "cudnn_init",
        "2019-01-23 21:21:11.073710: E tensorflow/stream_executor/cuda/cuda_dnn.cc:455] could not create cudnn handle: "
        "CUDNN_STATUS_NOT_INITIALIZED",
    ),
    (
        "shared_memory",
        "gpu2-ru7:2143:2561 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    (
        "shared_memory",
        "3d3e22c3066f:168:168 [0] misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment "
        "/dev/shm/nccl-UbzKZ9 (size 9637888)",
    ),
    ("nccl", "UnknownError: ncclCommInitRank failed: unhandled system error"),
    (
        "nccl",
        "ce1a35ee222c:688:748 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/",
    ),
    (
        "process_limit",
        "F tensorflow/core/platform/default/env.cc:73] Check failed: ret == 0 (11 vs. 0)Thread tf_foreach creation via "
        "pthread_create() failed.",
    ),
    ("process_limit", "The child could not be started: [Errno 11] Resource temporarily unavailable"),
    ("file_limit", "The child could not be started: [Errno 24] Too many open files"),
    ("file_limit", "misc/socket.cc:483 NCCL WARN Net : Socket creation failed : Too many open files"),
    ("nchw_on_cpu", "InvalidArgumentError: Default MaxPoolingOp only supports NHWC on device type CPU"),
    ("nchw_on_cpu", "The Conv2D op currently only supports the NHWC tensor format on the CPU."),
    ("port_in_use", "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server"),
    ("peer_lost", 'UnavailableError: failed to connect to all addresses\n{"grpc_status":14}'),
    ("legacy_keras", "ImportError: Keras cannot be imported. Check that it is installed."),
    ("driver_too_old", "CUDA driver version is insufficient for CUDA runtime version"),
]
"""(reason, what a child printed before it failed)"""

COMPILES = (
    "W0000 00:00:1753232013.685876   24341 gpu_device.cc:2431] TensorFlow was not built with CUDA kernel binaries "
    "compatible with compute capability 12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 minutes "
    "or longer."
)

HARMLESS = [
    "I0000 00:00:1796094161.346342   13889 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use "
    "available CPU instructions in performance-critical operations.",
    "2020-08-24 11:08:28.5: W tensorflow/stream_executor/platform/default/dso_loader.cc:59] Could not load dynamic "
    "library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory",
    COMPILES,
    "Traceback (most recent call last):\nValueError: anything",
]
"""What is printed where nothing is wrong, or nothing known."""


@pytest.mark.parametrize(("reason", "printed"), NO_GPU)
def test_why_no_gpu_is_seen(reason: str, printed: str) -> None:
    generic = Verdict("unsupported", "no_gpu", "The cell asks for a GPU, and TensorFlow sees none.")
    verdict = explain(generic, f"before\n{printed}\nafter\n")
    assert (verdict.status, verdict.reason) == ("unsupported", reason)


@pytest.mark.parametrize(("reason", "printed"), CRASHES)
def test_why_a_child_failed(reason: str, printed: str) -> None:
    for generic in ("exception", "exited", "aborted"):
        verdict = explain(Verdict("crash", generic, "It failed."), f"before\n{printed}\nafter\n")
        assert (verdict.status, verdict.reason) == ("crash", reason)


def test_why_nothing_moves() -> None:
    verdict = explain(Verdict("timeout", "first_step_hang", "The first step was not done."), COMPILES)
    assert (verdict.status, verdict.reason) == ("timeout", "first_step_hang")
    assert verdict.message.startswith("The first step was not done. This TensorFlow is not built for this GPU")


@pytest.mark.parametrize("printed", HARMLESS)
def test_what_everybody_prints_explains_nothing(printed: str) -> None:
    for verdict in (Verdict("crash", "exception", "It failed."), Verdict("unsupported", "no_gpu", "There is none.")):
        assert explain(verdict, printed) == verdict


def test_what_is_known_already_is_not_explained_away() -> None:
    for verdict in (
        Verdict("oom", "device_memory", "The device's memory does not suffice."),
        Verdict("invalid", "loss_not_finite", "The loss is nan."),
        Verdict("crash", "killed", "It was ended by SIGKILL."),
        Verdict("unsupported", "no_kernel", "There is no kernel."),
    ):
        assert explain(verdict, "NCCL WARN anything\nCUDA_ERROR_ILLEGAL_ADDRESS") == verdict


def test_every_symptom_is_tested_and_says_what_to_do() -> None:
    assert {s.reason for s in SYMPTOMS} == {reason for reason, _ in (*NO_GPU, *CRASHES)} | {"compiles_kernels"}
    assert len({s.reason for s in SYMPTOMS}) == len(SYMPTOMS)
    for symptom in SYMPTOMS:
        assert symptom.message.endswith(".") and ": " in symptom.message, symptom.reason
        assert set(symptom.when) <= {"no_gpu", "crash", "hang"}


def test_fleet_counts_every_missing_gpu_as_a_failure() -> None:
    assert {s.reason for s in SYMPTOMS if "no_gpu" in s.when} | {"no_gpu"} == WITHOUT_GPU


@pytest.mark.parametrize("start", ["", "Loaded runtime CuDNN library: ", "kernel version ", "could not be started: "])
def test_the_end_of_a_long_output_is_searched_quickly(start: str) -> None:
    before_s = time.process_time()
    for output in (start + "x" * 65536, (start + "x") * (65536 // (len(start) + 1))):
        assert find_symptom(output, "crash") is None
    assert time.process_time() - before_s < 2


@pytest.mark.needs("tensorflow")
def test_what_the_child_printed_decides(tmp_path: Path) -> None:
    reason, printed = NO_GPU[4]
    (tmp_path / "sitecustomize.py").write_text(f"import os\nos.write(2, {printed.encode()!r} + b'\\n')\n")
    spec = bench.write_spec(tmp_path, [Cell(model="alexnet", batch_size=1, device="gpu"), bench.FAST])
    path = os.pathsep.join([str(tmp_path), str(bench.ROOT)])
    done = bench.run_payload("run", spec, "--out", tmp_path / "out", env={"PYTHONPATH": path})
    assert done.returncode == 0
    missing, ok = bench.read_cells(tmp_path / "out")
    assert (missing.status, missing.reason, missing.failed) == ("unsupported", reason, True)
    assert "nvidia-fabricmanager" in (missing.message or "") and "cuInit" in (missing.log_tail or "")
    assert ok.status == "ok"
