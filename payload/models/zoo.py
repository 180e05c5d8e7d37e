"""The table of models: the names of the catalogue and the networks behind them."""

from typing import Dict

from payload.models import (
    bert,
    densenet,
    inception,
    mobilenet,
    nasnet,
    resnet,
    resnet_basic,
    resnet_cifar,
    trivial,
    vgg,
)
from payload.models.alexnet import ALEXNET, ALEXNET_CIFAR10, ALEXNET_CONV
from payload.models.googlenet import GOOGLENET
from payload.models.lenet import LENET
from payload.models.network import Network
from payload.models.overfeat import OVERFEAT
from payload.models.vit import VIT_B16

NETWORKS: Dict[str, Network] = {
    "alexnet": ALEXNET,
    "alexnet_conv": ALEXNET_CONV,
    "alexnet_cifar10": ALEXNET_CIFAR10,
    "bert_base_128": bert.make_network(128),
    "bert_base_512": bert.make_network(512),
    "densenet40_k12": densenet.DENSENET40_K12,
    "densenet100_k12": densenet.DENSENET100_K12,
    "densenet100_k24": densenet.DENSENET100_K24,
    "googlenet": GOOGLENET,
    "inception3": inception.INCEPTION3,
    "inception4": inception.INCEPTION4,
    "lenet": LENET,
    "mobilenet": mobilenet.MOBILENET,
    "nasnet": nasnet.NASNET,
    "nasnetlarge": nasnet.NASNETLARGE,
    "nasnet_cifar10": nasnet.NASNET_CIFAR10,
    "overfeat": OVERFEAT,
    "resnet18": resnet_basic.RESNET18,
    "resnet18_v2": resnet_basic.RESNET18_V2,
    "resnet34": resnet_basic.RESNET34,
    "resnet34_v2": resnet_basic.RESNET34_V2,
    "resnet50": resnet.RESNET50,
    "resnet50_v1.5": resnet.RESNET50_V1_5,
    "resnet50_v2": resnet.RESNET50_V2,
    "resnet101": resnet.RESNET101,
    "resnet101_v1.5": resnet.RESNET101_V1_5,
    "resnet101_v2": resnet.RESNET101_V2,
    "resnet152": resnet.RESNET152,
    "resnet152_v1.5": resnet.RESNET152_V1_5,
    "resnet152_v2": resnet.RESNET152_V2,
    "trivial": trivial.TRIVIAL,
    "trivial_cifar10": trivial.TRIVIAL_CIFAR10,
    "vgg11": vgg.VGG11,
    "vgg11_lrn": vgg.VGG11_LRN,
    "vgg13": vgg.VGG13,
    "vgg16": vgg.VGG16,
    "vgg16c": vgg.VGG16C,
    "vgg19": vgg.VGG19,
    "vit_b16": VIT_B16,
}
NETWORKS.update(("resnet%d" % depth, resnet_cifar.make_network(depth, 1)) for depth in resnet_cifar.DEPTHS)
NETWORKS.update(("resnet%d_v2" % depth, resnet_cifar.make_network(depth, 2)) for depth in resnet_cifar.DEPTHS)
