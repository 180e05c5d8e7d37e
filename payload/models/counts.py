"""How much work a graph is."""

from typing import Any


def count_macs(graph: Any) -> int:
    """Multiply-adds of the convolutions and matrix products in a graph with static shapes, and of nothing else."""
    total = 0
    for operation in graph.get_operations():
        if operation.type == "Conv2D":
            height, width, channels, _ = operation.inputs[1].shape.as_list()
            total += _size(operation.outputs[0]) * height * width * channels
        elif operation.type == "DepthwiseConv2dNative":
            height, width, _, _ = operation.inputs[1].shape.as_list()
            total += _size(operation.outputs[0]) * height * width
        elif operation.type == "MatMul":
            total += _size(operation.outputs[0]) * int(operation.inputs[0].shape[1])
        elif operation.type == "BatchMatMulV2":
            inner = -2 if operation.get_attr("adj_x") else -1
            total += _size(operation.outputs[0]) * int(operation.inputs[0].shape[inner])
    return total


def _size(tensor: Any) -> int:
    product = 1
    for n in tensor.shape.as_list():
        product *= n
    return product
