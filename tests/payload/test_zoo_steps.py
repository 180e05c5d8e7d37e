"""Every model of the zoo builds as a workload and takes a step of each phase."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytestmark = [pytest.mark.needs("tensorflow"), pytest.mark.long]
numpy = pytest.importorskip("numpy")
tf = pytest.importorskip("tensorflow")

from payload.catalog import read_catalog  # noqa: E402
from payload.cell import Cell  # noqa: E402
from payload.models.bert import _embed  # noqa: E402
from payload.models.zoo import NETWORKS  # noqa: E402
from payload.workload import Workload  # noqa: E402
from tests.payload.zoo import choose  # noqa: E402


def build(model: str, phase: str) -> Workload:
    cell = Cell(
        model=model,
        phase=phase,
        precision="fp32",
        batch_size=1 if model == "nasnetlarge" else 2,
        device="cpu",
        devices=1,
        data_format="NHWC",
        xla=False,
    )
    return Workload(cell, NETWORKS[model], "/CPU:0")


@pytest.mark.parametrize("model", choose(set(NETWORKS) - {"alexnet_conv"}))
def test_a_model_trains_and_infers(model: str) -> None:
    classes = NETWORKS[model].classes
    workload = build(model, "train")
    before = [weight.variable.numpy() for weight in workload._weights.items if not weight.trainable]
    loss = workload.step()
    assert loss is not None and math.isfinite(loss) and loss > 0
    after = [weight.variable.numpy() for weight in workload._weights.items if not weight.trainable]
    assert not any(numpy.array_equal(old, after[i]) for i, old in enumerate(before))
    workload = build(model, "forward")
    workload.step()
    workload.check_output()
    assert [logits.shape for logits in workload._fetched] == [(1 if model == "nasnetlarge" else 2, classes)]
    assert workload.facts["parameters"] == read_catalog()[model]["parameters"]
    # An image has a say in its logits: nothing on the way from it is dead.
    logits = workload._fetched[0]
    assert len(logits) == 1 or model.startswith("trivial") or numpy.abs(logits[0] - logits[1]).max() > 0


@pytest.mark.parametrize("model", ["bert_base_128", "vit_b16", "mobilenet"])
def test_every_weight_gets_a_gradient(model: str) -> None:
    workload = build(model, "train")
    before = [weight.variable.numpy() for weight in workload._weights.trainable]
    for _ in range(2):
        workload.step()
    for weight, old in zip(workload._weights.trainable, before, strict=True):
        assert not numpy.array_equal(weight.variable.numpy(), old), weight.name


def test_a_loss_does_not_grow() -> None:
    workload = build("nasnet_cifar10", "train")
    losses = [workload.step() or math.inf for _ in range(20)]
    assert max(losses) < 2 * losses[0]


def test_an_embedding_s_gradient_is_that_of_its_rows() -> None:
    random = numpy.random.RandomState(1)
    table = tf.constant(random.normal(size=(30522, 768)).astype(numpy.float32))
    tokens = tf.constant(random.randint(0, 40, (3, 50)), tf.int32)
    upstream = tf.constant(random.normal(size=(3, 50, 768)).astype(numpy.float32))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def differentiate() -> Any:
        rows = _embed(table, tokens)
        return rows, tf.gradients(rows, table, upstream)[0]

    rows, gradient = differentiate()
    wanted = numpy.zeros((30522, 768), numpy.float32)
    numpy.add.at(wanted, tokens.numpy(), upstream.numpy())
    assert numpy.array_equal(rows.numpy(), table.numpy()[tokens.numpy()])
    assert numpy.abs(gradient.numpy() - wanted).max() < 1e-5


def test_synthetic_tokens_are_words_of_the_vocabulary() -> None:
    mean, deviation = NETWORKS["bert_base_128"].images
    for dtype in (tf.float32, tf.float16, tf.bfloat16):
        tokens = tf.cast(tf.random.truncated_normal([100_000], mean, deviation, dtype), tf.int32).numpy()
        assert tokens.min() >= 0 and tokens.max() < 30522
        assert len(numpy.unique(tokens)) > 100
