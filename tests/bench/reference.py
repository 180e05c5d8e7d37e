"""tf_cnn_benchmarks, driven from outside: started by `payload.py` under an interpreter that can run it.

    python -m tests.bench.reference CHECKOUT digest MODEL…
    python -m tests.bench.reference CHECKOUT logits MODEL FILE.npz
    python -m tests.bench.reference CHECKOUT step MODEL PHASE BATCH_SIZE DESCRIPTOR

Runs on Python 3.6. The reference's models are built and run by its own code; nothing of it is changed on disk.
"""

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy
import tensorflow.compat.v1 as tf

from tests.bench.filling import Filling, digest, digest_changes, fill_images
from tests.bench.pipe import Pipe

_CIFAR_DEPTHS = ("resnet20", "resnet32", "resnet44", "resnet56", "resnet110")
_WITHOUT_ENTRY = {"resnet101_v1.5": (3, 4, 23, 3), "resnet152_v1.5": (3, 8, 36, 3)}
_SLIM = {
    "mobilenet": ("mobilenet_v2", "MobilenetModel"),
    "nasnet": ("nasnet_model", "NasnetModel"),
    "nasnetlarge": ("nasnet_model", "NasnetLargeModel"),
    "nasnet_cifar10": ("nasnet_model", "NasnetCifarModel"),
}


def enter(checkout: str) -> Any:
    """Make the reference importable and return its module of measuring."""
    sys.path.insert(0, str(Path(checkout) / "scripts" / "tf_cnn_benchmarks"))
    tf.disable_v2_behavior()
    importlib.import_module("flags").define_flags()
    return importlib.import_module("benchmark_cnn")


def is_cifar(model: str) -> bool:
    """By the payload's name of a model: whether the reference has it among those for CIFAR-10."""
    return model.endswith("_cifar10") or model.startswith("densenet") or model.replace("_v2", "") in _CIFAR_DEPTHS


def make_model(benchmark_cnn: Any, model: str) -> Any:
    """The reference's model by the payload's name, whether or not its own table can make it there."""
    name = model.replace("_cifar10", "")
    params = benchmark_cnn.make_params(model=name, data_format="NHWC", device="cpu", num_gpus=1)
    if model in _SLIM:
        module, class_name = _SLIM[model]
        return getattr(_import_slim_module(module), class_name)(params=params)
    if model in _WITHOUT_ENTRY:
        resnet_model = importlib.import_module("models.resnet_model")
        return resnet_model.ResnetModel(model, _WITHOUT_ENTRY[model], params=params)
    if model.startswith("densenet"):
        # Its makers take no parameters and so leave the layout at that for GPUs.
        made = getattr(importlib.import_module("models.densenet_model"), f"create_{model}_model")()
        made.data_format = "NHWC"
        return made
    datasets = importlib.import_module("datasets")
    dataset = datasets.Cifar10Dataset() if is_cifar(model) else datasets.ImagenetDataset()
    return importlib.import_module("models.model_config").get_model_config(name, dataset, params)


def _import_slim_module(module: str) -> Any:
    """A module that wants TensorFlow 1's `contrib`, of which TF-Slim is what it uses."""
    slim = importlib.import_module("tf_slim")
    contrib: Any = types.ModuleType("tensorflow.contrib")
    training: Any = types.ModuleType("tensorflow.contrib.training")
    training.HParams = types.SimpleNamespace
    parts = {"slim": slim, "layers": slim.layers, "framework": slim, "training": training}
    sys.modules["tensorflow.contrib"] = contrib
    for name, part in parts.items():
        setattr(contrib, name, part)
        sys.modules["tensorflow.contrib." + name] = part
    return importlib.import_module("models.tf1_only." + module)


def build(model: Any, nclass: int, training: bool, batch_size: int) -> Any:
    """(graph, images, logits) of one model in a graph of its own."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(1234)
        # As in its benchmark: there before the model, some of whose layers read it.
        tf.train.get_or_create_global_step()
        size = model.image_size
        images = tf.placeholder(tf.float32, [batch_size, size, size, 3])
        labels = tf.zeros([batch_size], tf.int32)
        logits = model.build_network([images, labels], phase_train=training, nclass=nclass).logits
    return graph, images, logits


def list_variables(session: Any) -> Any:
    """The model's variables in the order of their creation; the counter of steps is set to 0."""
    step = tf.train.get_global_step()
    session.run(step.initializer)
    return [variable for variable in tf.global_variables() if variable is not step]


def assign(session: Any, variables: Any, values: Any) -> None:
    """Set variables, all at once: every call of a session with other fetches prunes the whole graph again."""
    feed = {variable.initializer.inputs[1]: values[i] for i, variable in enumerate(variables)}
    session.run([variable.initializer for variable in variables], feed)


def digest_model(benchmark_cnn: Any, name: str) -> Any:
    """The digests of one model: of its logits in inference, and of its moving averages' first change in training."""
    model = make_model(benchmark_cnn, name)
    found = {}
    for training in (False, True):
        graph, images, logits = build(model, 11 if is_cifar(name) else 1001, training, 2)
        with graph.as_default(), tf.Session() as session:
            variables = list_variables(session)
            filling = Filling()
            assign(session, variables, [filling.fill(v.op.name, v.shape.as_list()) for v in variables])
            feed = {images: fill_images(images.shape.as_list())}
            if not training:
                found["logits"] = digest(session.run(logits, feed))
                continue
            moving = [v for v in variables if v.op.name.endswith(("moving_mean", "moving_variance"))]
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            if updates:
                before = session.run(moving)
                session.run(updates, feed)
                found["moving"] = digest_changes(before, session.run(moving))
    return found


def save_logits(benchmark_cnn: Any, name: str, path: str) -> None:
    """Write the reference's own initial values, images as it draws them, and the logits of both modes."""
    model = make_model(benchmark_cnn, name)
    saved = {}
    for training in (False, True):
        graph, images, logits = build(model, 11 if is_cifar(name) else 1001, training, 2)
        with graph.as_default(), tf.Session() as session:
            variables = list_variables(session)
            if not training:
                session.run(tf.global_variables_initializer())
                values = session.run(variables)
                pixels = session.run(tf.truncated_normal(images.shape.as_list(), 127.0, 60.0))
                saved["images"] = pixels
                saved.update({f"variable{i:04}": value for i, value in enumerate(values)})
                saved["names"] = numpy.array([v.op.name for v in variables])
            assign(session, variables, values)
            saved["trained" if training else "inferred"] = session.run(logits, {images: pixels})
    numpy.savez(path, **saved)


def serve_steps(benchmark_cnn: Any, name: str, phase: str, batch_size: int, pipe: Pipe) -> None:
    """Run the reference's own benchmark of a model, one step whenever one is asked for.

    Its learning rate is replaced by one at which the losses stay finite.
    """
    params = benchmark_cnn.make_params(
        model=name.replace("_cifar10", ""),
        data_name="cifar10" if is_cifar(name) else "imagenet",
        batch_size=batch_size,
        device="cpu",
        local_parameter_device="cpu",
        data_format="NHWC",
        forward_only=phase == "forward",
        init_learning_rate=1e-8,
        num_intra_threads=1,
        num_inter_threads=1,
        num_warmup_batches=0,
        num_batches=10**9,
        display_every=10**9,
    )
    params = benchmark_cnn.setup(params)
    take_step = benchmark_cnn.benchmark_one_step

    def wait_and_step(*args: Any, **kwargs: Any) -> Any:
        return pipe.take_step(lambda: take_step(*args, **kwargs))

    benchmark_cnn.benchmark_one_step = wait_and_step
    benchmark_cnn.BenchmarkCNN(params).run()


def main(checkout: str, task: str, *words: str) -> None:
    benchmark_cnn = enter(checkout)
    if task == "logits":
        save_logits(benchmark_cnn, *words)
    elif task == "step":
        name, phase, batch_size, descriptor = words
        serve_steps(benchmark_cnn, name, phase, int(batch_size), Pipe(int(descriptor)))
    else:
        for name in words:
            print(name, json.dumps(digest_model(benchmark_cnn, name)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
