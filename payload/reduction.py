"""Gradients of several devices made into their sum on every device."""

from typing import Any, List

import tensorflow as tf


def choose_reduction(devices: List[str]) -> str:
    """`nccl` between GPUs of a TensorFlow built for CUDA, else `copy`."""
    gpus = all("GPU" in device for device in devices)
    return "nccl" if gpus and tf.test.is_built_with_cuda() else "copy"


def reduce_gradients(gradients: List[List[Any]], devices: List[str], reduction: str) -> List[List[Any]]:
    """Sum up every gradient over the devices, as soon as all have it: none waits for the others.

    Args:
        gradients: per device, in the order of `devices`, its gradients; the same variables on each.
        reduction: `nccl`: one collective a gradient. `copy`: copied to one device, added up there, copied back; the
            devices take turns, so that none carries all the work.

    Returns:
        Per device its copies of the sums.
    """
    reduced: List[List[Any]] = [[] for _ in devices]
    for i, parts in enumerate(zip(*gradients)):
        if reduction == "nccl":
            sums = _sum_by_nccl(parts, devices, "gradient%d" % i)
        else:
            with tf.device(devices[i % len(devices)]):
                sums = [tf.add_n(list(parts))] * len(devices)
        for mine, total in zip(reduced, sums):
            mine.append(total)
    return reduced


def _sum_by_nccl(parts: Any, devices: List[str], name: str) -> List[Any]:
    sums = []
    for part, device in zip(parts, devices):
        with tf.device(device):
            sums.append(
                tf.raw_ops.NcclAllReduce(input=part, reduction="sum", num_devices=len(devices), shared_name=name)
            )
    return sums
