"""The networks as workloads: they compute what they should. What they are is held to the reference elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.needs("tensorflow")
numpy = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")

from payload.catalog import read_catalog  # noqa: E402
from payload.cell import Cell  # noqa: E402
from payload.measure import NotFinite, Report, measure  # noqa: E402
from payload.models.zoo import NETWORKS  # noqa: E402
from payload.spec import Rules  # noqa: E402
from payload.workload import Workload  # noqa: E402


def build(model: str, phase: str, precision: str = "fp32", batch_size: int = 2, data_format: str = "NHWC") -> Workload:
    cell = Cell(model, phase, precision, batch_size, "cpu", 1, data_format, False)
    return Workload(cell, NETWORKS[model], "/CPU:0")


@pytest.mark.parametrize(("model", "convolutions"), [("resnet50", 53), ("alexnet", 5)])
def test_channels_first_is_the_same_network(model: str, convolutions: int) -> None:
    workload = build(model, "train", "fp16", data_format="NCHW")
    assert workload.facts["forward_flops"] == 2 * read_catalog()[model]["forward_macs"]
    # A CPU cannot run it, but it can be traced.
    graph = tf.function(workload._train, autograph=False).get_concrete_function().graph
    found = [o for o in graph.get_operations() if o.type == "Conv2D"]
    assert len(found) == convolutions
    assert {(o.get_attr("data_format"), o.get_attr("T")) for o in found} == {(b"NCHW", tf.float16)}
    norms = [o for o in graph.get_operations() if o.type == "FusedBatchNormV3"]
    assert {(o.get_attr("T"), o.get_attr("U")) for o in norms} <= {(tf.float16, tf.float32)}


@pytest.mark.parametrize("model", ["resnet50", "alexnet"])
def test_training_learns_and_stays_finite(model: str) -> None:
    workload = build(model, "train")
    # Far into the training, so that resnet50's rate has risen from 0 and moves what is 1 at first.
    workload._taken.assign(1e9)
    before = [w.variable.numpy() for w in workload._weights.items]
    result = measure(workload.step, Rules(1, 0.0, 6, 0.0, 60.0, 60.0), Report())
    assert result["loss"]["finite"] is True
    for weight, old in zip(workload._weights.items, before, strict=True):
        assert numpy.isfinite(weight.variable.numpy()).all()
        # Every variable moves: gradients reach the first layer, and the moving averages are kept.
        assert not numpy.array_equal(weight.variable.numpy(), old), weight.name


def test_the_first_loss_is_entropy_plus_decay() -> None:
    workload = build("resnet50", "train")
    squares = sum(float((w.variable.numpy() ** 2).sum()) for w in workload._weights.trainable if w.decayed) / 2
    loss = workload.step()
    assert loss is not None
    # Two images among 1001 classes, with logits of order one: near ln 1001 = 6.9.
    assert 4 < loss - 4e-5 * squares < 10


def test_inference_is_the_same_every_time_and_leaves_the_model_alone() -> None:
    workload = build("resnet50", "forward")
    workload.step()
    first = workload._fetched
    workload.step()
    assert first[0].shape == (2, 1001) and first[0].dtype == numpy.float32
    assert numpy.array_equal(first[0], workload._fetched[0])
    workload.check_output()


def test_alexnet_conv_has_the_published_shapes() -> None:
    workload = build("alexnet_conv", "forward")
    workload.step()
    assert workload._fetched[0].shape == (2, 6, 6, 256)
    workload = build("alexnet_conv", "forward_backward")
    workload.step()
    shapes = [array.shape for array in workload._fetched]
    assert len(shapes) == 10
    assert shapes[0::2] == [(11, 11, 3, 64), (5, 5, 64, 192), (3, 3, 192, 384), (3, 3, 384, 256), (3, 3, 256, 256)]
    assert shapes[1::2] == [(64,), (192,), (384,), (256,), (256,)]


def test_half_precision_computes_the_same_gradients() -> None:
    def fetch(precision: str) -> list[Any]:
        workload = build("alexnet_conv", "forward_backward", precision, batch_size=1)
        workload.step()
        workload.check_output()
        return workload._fetched

    # The same seed draws other images in another type, so only the size can agree.
    for half, full in zip(fetch("fp16"), fetch("fp32"), strict=True):
        assert half.dtype == numpy.float32
        assert numpy.abs(half).mean() == pytest.approx(numpy.abs(full).mean(), rel=0.3)


def test_a_loss_that_is_not_finite_ends_the_measurement() -> None:
    workload = build("alexnet", "train", batch_size=1)
    workload.step()
    kernel = workload._weights.items[0].variable
    kernel.assign(tf.fill(kernel.shape, float("inf")))
    with pytest.raises(NotFinite, match="warm-up step 1") as caught:
        measure(workload.step, Rules(2, 0.0, 5, 0.0, 60.0, 60.0), Report())
    assert caught.value.reason == "loss_not_finite"


def test_logits_that_are_not_finite_are_found() -> None:
    workload = build("alexnet_conv", "forward", batch_size=1)
    # Not NaN: ReLU makes that 0 on some processors.
    bias = workload._weights.items[-1].variable
    bias.assign(tf.fill(bias.shape, float("inf")))
    workload.step()
    with pytest.raises(NotFinite) as caught:
        workload.check_output()
    assert caught.value.reason == "logits_not_finite"
