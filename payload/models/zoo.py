"""The table of models: the names of the catalogue and the networks behind them."""

from payload.models.alexnet import ALEXNET, ALEXNET_CONV
from payload.models.resnet import RESNET50

NETWORKS = {
    "alexnet": ALEXNET,
    "alexnet_conv": ALEXNET_CONV,
    "resnet50": RESNET50,
}
