"""Modules of parallel branches whose outputs are joined: what GoogLeNet and the Inception networks are made of."""

from typing import Any, Callable, List, Sequence

from payload.models.layers import Layers

Convolve = Callable[..., Any]
"""(layers, x, filters, kernel, stride, padding): a convolution with all that follows it in this family."""


def join_branches(layers: Layers, x: Any, branches: Sequence[Sequence[Any]], convolve: Convolve) -> Any:
    """Apply every branch to x and join what comes out.

    Args:
        branches: each a sequence of steps: (filters, kernel[, stride, padding]) convolves; ("max" or "avg", size,
            stride, padding) pools; a list of branches, as the last step, is where the branch splits.
    """
    return layers.join(_apply(layers, x, branches, convolve))


def _apply(layers: Layers, x: Any, branches: Sequence[Sequence[Any]], convolve: Convolve) -> List[Any]:
    outputs: List[Any] = []
    for branch in branches:
        ends = [x]
        for step in branch:
            if isinstance(step, list):
                ends = _apply(layers, ends[0], step, convolve)
            elif step[0] == "max":
                ends = [layers.max_pool(ends[0], *step[1:])]
            elif step[0] == "avg":
                ends = [layers.average_pool(ends[0], *step[1:])]
            else:
                ends = [convolve(layers, ends[0], *step)]
        outputs += ends
    return outputs
