"""Arithmetic in which the order of a sum does not matter.

Activations and weights are whole numbers held in floats. A sum of products of whole numbers below
2^24 in all is exact in float32, below 2^53 in float64, in whatever order and blocks a kernel adds
them up. Everything between two sums is elementwise: one correctly rounded operation after another.

Invariant: whatever is computed here depends on the numbers and not on the batch, the chunk, the
number of threads or the device that computed it. So logits over cached KV are *bit-equal* to those
recomputed from scratch, and the bound of oracle N1 is 0.

    projection    activations x weights, `width` of them        127 x 7 x width    float32
    score         activations x keys, `dim` of them             127 x 128 x dim    float32
    attended      shares x values, `SPAN` of them               128 x 128 x SPAN   float32
                  and then over the spans                                          float64
    mean square   residuals squared, `width` of them            2^30 x width       float64

A model that ranks have dealt out adds up partial sums of the same numbers, so the bounds are those
of the whole width.

So widths may be up to 18,872 and heads up to 1,032 wide, and `SPAN` is 1,024.

Keys and values are rounded to the data type of the cache before anybody, their own token
included, attends to them: rounding depends on the number and its page's scale alone. What would not
be bit-equal is a float16 or float32 model with its usual activations: kernels pick their blocking
by shape, so a token alone in a decode batch and the same token inside a chunk add up in other
orders.
"""

import torch
from torch import Tensor

ACTIVATION = 127  # most of a normalised activation
WEIGHT = 7  # most of a weight; evenly spread over -7 .. 7
RESIDUAL = 2**15
SHARE = 128  # most of an unnormalised attention weight
SPAN = 1024  # tokens of context whose weighted values are added up in float32
SPREAD = 24.0  # standard deviation that activations are scaled to
_WEIGHT_SPREAD = ((2 * WEIGHT + 1) ** 2 / 12 - 1 / 12) ** 0.5  # of -7 .. 7


def whole(x: Tensor, limit: int = ACTIVATION) -> Tensor:
    """The nearest whole numbers, no larger than `limit`, in float32; `x` is used up."""
    return x.round_().clamp_(-limit, limit).float()


def project(x: Tensor, weight: Tensor, limit: int = ACTIVATION) -> Tensor:
    """x @ weight^T, scaled back to the spread of activations. `weight` is [out, in]."""
    return scaled(product(x, weight), weight.shape[1], limit)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight^T in whole numbers: of a rank that has a part of the width, its partial sums."""
    return torch.nn.functional.linear(x, weight)


def scaled(sums: Tensor, width: int, limit: int = ACTIVATION) -> Tensor:
    """Sums over `width` products, scaled back to the spread of activations; they are used up."""
    assert width * ACTIVATION * WEIGHT <= 2**24, "wider sums would be rounded"
    return whole(sums.mul_(_scale(width)), limit)


def _scale(width: int) -> float:
    return 1.0 / float(_WEIGHT_SPREAD * width**0.5)


def normalise(x: Tensor) -> Tensor:
    """RMSNorm over the last dimension, to whole numbers of spread `SPREAD`."""
    wide = x.double()
    mean = wide.square().sum(-1, keepdim=True).div_(x.shape[-1])
    return whole(wide.mul_(SPREAD).div_(mean.clamp_(min=1.0).sqrt_()))


def softly(x: Tensor) -> Tensor:
    """x times a straight-line sigmoid: a SiLU without an exponential."""
    return x * x.div(4 * SPREAD).add_(0.5).clamp_(0.0, 1.0)


def shares(scores: Tensor, unit: float) -> Tensor:
    """Unnormalised attention weights, whole numbers up to `SHARE`, of scores whose natural unit is
    `unit`; -inf is out of sight. (1 + x/8)^-8 stands for exp(-x): it takes one division and three
    squarings, each of which is correctly rounded everywhere."""
    top = scores.amax(-1, keepdim=True)
    falling = scores.sub_(top).mul_(-1.0 / (8 * unit)).add_(1.0)
    for _ in range(3):
        falling.mul_(falling)
    return falling.reciprocal_().mul_(SHARE).round_()


def attended(weights: Tensor, values: Tensor) -> Tensor:
    """values [..., context, dim] averaged with weights [..., query, context]."""
    context = values.shape[-2]
    total = weights.sum(-1, keepdim=True, dtype=torch.float64)
    taken = torch.zeros((*weights.shape[:-1], values.shape[-1]), dtype=torch.float64,
                        device=values.device)  # fmt: skip
    for start in range(0, context, SPAN):
        part = weights[..., start : start + SPAN] @ values[..., start : start + SPAN, :]
        taken += part
    return whole(taken.div_(total).mul_(8.0))
