"""What TensorFlow, CUDA and NCCL print when something known is wrong, and what to do about it."""

import re
from typing import NamedTuple, Optional, Tuple

Symptom = NamedTuple("Symptom", [("reason", str), ("when", Tuple[str, ...]), ("pattern", str), ("message", str)])
"""`when`: what it explains. `no_gpu`: TensorFlow sees too few GPUs; `crash`: the child failed; `hang`: it stood still.
`pattern`: a regular expression, whatever the case. `message`: the cause, and what to do."""

_GPU = ("no_gpu", "crash")
_CRASH = ("crash",)
_STUCK = ("crash", "hang")

SYMPTOMS = (
    Symptom(
        "driver_upgraded_no_reboot",
        _GPU,
        r"kernel version \S+ does not match DSO version|Driver/library version mismatch|"
        r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|cuInit\(\)=803",
        "The NVIDIA driver's module and its libraries are of different versions, as after an upgrade: reboot the host.",
    ),
    Symptom(
        "driver_too_old",
        _GPU,
        r"forward compatibility was attempted on non supported HW|COMPAT_NOT_SUPPORTED_ON_DEVICE|Error 804\b|"
        r"CUDA driver version is insufficient for CUDA runtime version",
        "The host's NVIDIA driver is too old for this image's CUDA, and the GPU is none that may run it all the same: "
        "upgrade the driver, or choose an older image.",
    ),
    Symptom(
        "fabric_manager",
        _GPU,
        r"CUDA_ERROR_SYSTEM_NOT_READY|system not yet initialized|Error 802\b",
        "The machine's NVSwitches are not set up: start nvidia-fabricmanager, of the same version as the driver, and "
        "look whether nvidia-smi says fabric.state Completed.",
    ),
    Symptom(
        "gpu_exclusive",
        _GPU,
        r"CUDA_ERROR_DEVICE_UNAVAILABLE|all CUDA-capable devices are busy",
        "The GPU takes one process at a time (compute mode EXCLUSIVE_PROCESS), and somebody is on it: end that "
        "process, or set the mode to DEFAULT with nvidia-smi -c 0.",
    ),
    Symptom(
        "nvml_permissions",
        _GPU,
        r"Failed to initialize NVML: Insufficient Permissions",
        "The container may not open the GPU's device files: check their group, SELinux, and no-cgroups in the "
        "container toolkit's configuration.",
    ),
    Symptom(
        "gpu_lost_from_container",
        _GPU,
        r"Failed to initialize NVML: Unknown Error",
        "The container has lost the GPU, as after a systemctl daemon-reload on the host: run again, in a new one.",
    ),
    Symptom(
        "driver_not_loaded",
        ("no_gpu",),
        r"kernel driver does not appear to be running on this host|Could not load dynamic library 'libcuda\.so\.1'|"
        r"couldn't communicate with the NVIDIA driver|couldn't find libnvidia-ml|UNKNOWN ERROR \(303\)",
        "There is no NVIDIA driver here: check that nvidia-smi works on the host, and that the container gets the GPU "
        "(--gpus).",
    ),
    Symptom(
        "gpu_hidden",
        ("no_gpu",),
        r"CUDA_ERROR_NO_DEVICE",
        "The driver shows no GPU: it is hidden (CUDA_VISIBLE_DEVICES, fleet_devices), or in error; see nvidia-smi on "
        "the host.",
    ),
    Symptom(
        "cuda_unknown_error",
        _GPU,
        r"CUDA_ERROR_UNKNOWN",
        "CUDA fails without a reason, most often because the module nvidia_uvm is not loaded, or after a suspend: run "
        "nvidia-modprobe -u on the host, or reboot it.",
    ),
    Symptom(
        "gpu_libraries_missing",
        ("no_gpu",),
        r"Cannot dlopen some GPU libraries|Skipping registering GPU devices",
        "TensorFlow does not find all of its GPU libraries and would use the CPU: use an image that has them, or put "
        "their directories into LD_LIBRARY_PATH; the output's end says which are missing.",
    ),
    Symptom(
        "cuda_init",
        ("no_gpu",),
        r"failed call to cuInit",
        "CUDA cannot be started: the output's end says with which code; see nvidia-smi and `dmesg` on the host.",
    ),
    Symptom(
        "gpu_fault",
        _STUCK,
        r"CUDA_ERROR_ILLEGAL_ADDRESS|CUDA_ERROR_LAUNCH_FAILED|CUDA_ERROR_ECC_UNCORRECTABLE|CUDA_ERROR_HARDWARE_STACK|"
        r"CUDA_ERROR_MISALIGNED_ADDRESS|CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "The GPU failed while it computed: look for Xid in the host's `dmesg`. Should other cells fail too, it is the "
        "hardware.",
    ),
    Symptom(
        "gpu_unsupported_by_build",
        _CRASH,
        r"CUDA_ERROR_INVALID_PTX|CUDA_ERROR_INVALID_HANDLE|CUDA_ERROR_NO_BINARY_FOR_GPU|no kernel image is available",
        "This TensorFlow is not built for this GPU: use a newer image (NGC 25.02 for Blackwell).",
    ),
    Symptom(
        "cudnn_mismatch",
        _CRASH,
        r"Loaded runtime CuDNN library: \S.{0,80} but source was compiled with",
        "The cuDNN that is loaded is older than the one TensorFlow is built with: use the image's own, without "
        "LD_LIBRARY_PATH.",
    ),
    Symptom(
        "cudnn_init",
        _CRASH,
        r"failed to get convolution algorithm|DNN library is not found|DNN library initialization failed|"
        r"CUDNN_STATUS_(INTERNAL_ERROR|NOT_INITIALIZED|EXECUTION_FAILED)|could not create cudnn handle",
        "cuDNN cannot be started, most often because another process holds the GPU's memory: see nvidia-smi.",
    ),
    Symptom(
        "file_limit",
        _CRASH,
        r"Too many open files",
        "No more files may be opened: raise ulimit -n, or the container's with --ulimit nofile=65536.",
    ),
    Symptom(
        "shared_memory",
        _STUCK,
        r"Error while creating shared memory segment|posix_fallocate failed ?: No space left|failed to extend /dev/shm",
        "/dev/shm is too small: give the container more with --ipc=host or --shm-size.",
    ),
    Symptom(
        "nccl",
        _STUCK,
        r"ncclSystemError|unhandled (cuda|system) error|NCCL WARN",
        "The GPUs cannot talk to each other: run again with NCCL_DEBUG=INFO in the environment; if they hang, look for "
        "an IOMMU or ACS (`dmesg`: DMAR) and try NCCL_P2P_DISABLE=1.",
    ),
    Symptom(
        "process_limit",
        _CRASH,
        r"creation via pthread_create\(\) failed|can't start new thread|"
        r"could not be started: .{0,80}Resource temporarily unavailable",
        "No more threads may be started: raise ulimit -u, or the container's --pids-limit.",
    ),
    Symptom(
        "nchw_on_cpu",
        _CRASH,
        r"Default MaxPooling(Grad)?Op only supports NHWC|only supports the NHWC tensor format on the CPU",
        "TensorFlow computes this with NHWC only on a CPU: use data_format: NHWC.",
    ),
    Symptom(
        "port_in_use",
        _CRASH,
        r"Could not start gRPC server|No address added out of total",
        "The port that TensorFlow was told to serve on is taken: choose another, or wait until the last job is gone.",
    ),
    Symptom(
        "peer_lost",
        _STUCK,
        r"failed to connect to all addresses|heartbeat timeout|stopped sending heartbeats|Collective ops is aborted",
        "Another machine of the same job does not answer: look at its log, and whether the two reach each other.",
    ),
    Symptom(
        "legacy_keras",
        _CRASH,
        r"Keras cannot be imported\. Check that it is installed",
        "TF_USE_LEGACY_KERAS is set and tf_keras is not installed: unset it.",
    ),
    Symptom(
        "compiles_kernels",
        ("hang",),
        r"not built with CUDA kernel binaries compatible with compute capability",
        "This TensorFlow is not built for this GPU and compiles every kernel first, which can take half an hour: use a "
        "newer image, or raise cell_timeout_s.",
    ),
)
"""The first that is found counts: causes stand before what follows from them."""


def find_symptom(output: str, when: str) -> Optional[Symptom]:
    """The first known symptom in a child's output that explains `when`; None: nothing known is in it."""
    for symptom in SYMPTOMS:
        if when in symptom.when and re.search(symptom.pattern, output, re.IGNORECASE):
            return symptom
    return None
