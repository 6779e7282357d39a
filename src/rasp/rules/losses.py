"""Losses: a form per element, then a sum (n - 1 additions) and for the mean a division."""

from __future__ import annotations

from typing import Any

from ..records import OpSpec
from . import Work, rule
from ._contractions import product
from ._forms import Form, charge, form, size_of

LOG_SIGMOID = form(cmp=1, exp=1, log=1, add=2)


def loss(call: OpSpec, reduction: int, n: int, **counts: int) -> Work:
    """`reduction` is 0: none, 1: mean, 2: sum."""
    work = charge(counts, n)
    return work + Work(add=max(n - 1, 0) if reduction else 0, div=1 if reduction == 1 else 0)


FORMS: dict[str, Form] = {
    "mse_loss": form(add=1, mul=1),
    "l1_loss": form(add=1, cmp=1),
    "smooth_l1_loss": form(add=2, cmp=2, mul=2),
    "huber_loss": form(add=2, cmp=2, mul=2),
    "soft_margin_loss": form(mul=1, exp=1, add=1, log=1),
    "kl_div": form(log=1, add=1, mul=1),
    "hinge_embedding_loss": form(add=2, cmp=2),
}


@rule(*(f"aten::{name}" for name in FORMS))
def elementwise_loss(call: OpSpec) -> Work:
    return loss(call, call.args[2], call.args[0].numel, **FORMS[call.name.removeprefix("aten::")])


@rule("aten::binary_cross_entropy")
def binary_cross_entropy(call: OpSpec) -> Work:
    """-(t·log x + (1 - t)·log(1 - x)), weighted if asked"""
    counts = form(log=2, mul=2, add=3, cmp=1) + form(mul=1 if call.args[2] is not None else 0)
    return loss(call, call.args[3], call.args[0].numel, **counts)


@rule("aten::binary_cross_entropy_with_logits")
def with_logits(call: OpSpec) -> Work:
    """(1 - t)·x - log σ(x); a weight multiplies, a weight of the positives scales the second part."""
    weight, pos_weight, reduction = call.args[2:5]
    counts = LOG_SIGMOID + form(add=2, mul=1)
    counts += form(mul=1 if weight is not None else 0)
    counts += form(mul=2, add=2) if pos_weight is not None else form()
    return loss(call, reduction, call.args[0].numel, **counts)


@rule("aten::nll_loss_forward", "aten::nll_loss2d_forward", "aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def nll(call: OpSpec) -> Work:
    """One value per target picked, negated, weighted; read are the targets and the values picked."""
    x, target, weight, reduction = call.args[:4]
    n = target.numel
    work = loss(call, reduction, n, cmp=1, mul=1 if weight is not None else 0)
    work.read = target.touched_bytes + n * x.itemsize + (weight.touched_bytes if weight is not None else 0)
    return work


@rule("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_backward(call: OpSpec) -> Work:
    """Zeros, and one scaled value per target."""
    grad, _, target = call.args[:3]
    return Work(div=target.numel, read=grad.touched_bytes + target.touched_bytes)


@rule("aten::cross_entropy_loss")
def cross_entropy(call: OpSpec) -> Work:
    """log-softmax over the classes, then the value of the target (or the product with its probabilities)."""
    x, target, weight, reduction = call.args[:4]
    n, classes = x.numel, x.shape[1 if x.ndim > 1 else 0]
    rows = n // max(classes, 1)
    work = Work(cmp=n - rows, add=3 * n - rows, exp=n, log=rows)
    picked = n if target.shape == x.shape else rows
    return work + loss(call, reduction, picked, cmp=1, mul=1 if weight is not None or picked == n else 0)


@rule(
    "torch_nn::_linear_cross_entropy_batch_chunked",
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
)
def linear_cross_entropy(call: OpSpec) -> Work:
    """The product with the classes, their cross-entropy, and the gradients it computes on the way: two products."""
    x, classes, _, bias, weight = call.args[:5]
    n, rows = x.numel // max(x.shape[-1], 1) * classes.shape[0], x.numel // max(x.shape[-1], 1)
    work = product(n * x.shape[-1], n) + Work(bias=n if bias is not None else 0)
    work += Work(cmp=n - rows, add=3 * n - rows, exp=n, log=rows)
    work += loss(call, 0 if call.name.endswith("no_reduction") else 1, rows, cmp=1, mul=1 if weight is not None else 0)
    asked = [] if call.name.endswith("no_reduction") else [g for g, a in zip(call.out[1:3], call.args[12:14]) if a]
    for grad in asked:
        work += product(n * x.shape[-1], grad.numel)
    return work + Work(exp=n if asked else 0, mul=n if asked else 0)


@rule("aten::multi_margin_loss")
def multi_margin(call: OpSpec) -> Work:
    """Per class max(0, margin - x[y] + x)^p, averaged over the classes."""
    x, _, p, _, weight, reduction = call.args[:6]
    counts = form(add=3, cmp=1, mul=(1 if p == 2 else 0) + (1 if weight is not None else 0))
    return loss(call, reduction, x.numel, **counts)


@rule("aten::multilabel_margin_loss_forward", "aten::multilabel_margin_loss")
def multilabel_margin(call: OpSpec) -> Work:
    """Every target compared with every class that is none: at most classes² per row."""
    x = call.args[0]
    return loss(call, call.args[2], x.numel * (x.shape[-1] if x.shape else 1), add=3, cmp=1)


@rule("aten::multilabel_margin_loss_backward")
def multilabel_margin_backward(call: OpSpec) -> Work:
    x = call.args[1]
    return Work(add=3 * x.numel * (x.shape[-1] if x.shape else 1))


@rule("aten::margin_ranking_loss")
def margin_ranking(call: OpSpec) -> Work:
    return loss(call, call.args[4], size_of(call.args), add=2, mul=1, cmp=1)


@rule("aten::cosine_embedding_loss", "aten::triplet_margin_loss")
def of_rows(call: OpSpec) -> Work:
    """Products or distances over the rows, then a margin."""
    x = call.args[0]
    rows = x.numel // max(x.shape[-1], 1)
    work = Work(fma=3 * x.numel, sqrt=2 * rows, div=rows)
    return work + loss(call, call.args[-1], rows, add=2, cmp=1)


@rule("aten::cosine_similarity")
def cosine_similarity(call: OpSpec) -> Work:
    """x·y / (|x||y|): three sums of products, two roots, a division by each norm."""
    n, rows = max(t.numel for t in call.tensors), call.out.numel
    return Work(mul=3 * n, add=max(3 * (n - rows), 0), sqrt=2 * rows, cmp=2 * rows, div=2 * n)


@rule("aten::pairwise_distance")
def pairwise_distance(call: OpSpec) -> Work:
    n, rows = max(t.numel for t in call.tensors), call.out.numel
    return Work(add=2 * n + max(n - rows, 0), mul=n, sqrt=rows)


@rule("aten::poisson_nll_loss")
def poisson_nll(call: OpSpec) -> Work:
    counts = form(exp=1) if call.args[2] else form(log=1, add=1)
    counts += form(mul=1, add=1) + (form(log=2, mul=2, add=3, cmp=1) if call.args[3] else form())
    return loss(call, call.args[5], call.args[0].numel, **counts)


BACKWARD: dict[str, Form] = {
    "mse_loss_backward": form(add=1, mul=2),
    "smooth_l1_loss_backward": form(add=1, cmp=2, mul=1),
    "huber_loss_backward": form(add=1, cmp=2, mul=1),
    "soft_margin_loss_backward": form(exp=1, add=1, div=1, mul=2),
    "binary_cross_entropy_backward": form(add=2, mul=2, div=1, cmp=1),
    "multi_margin_loss_backward": form(add=2, mul=1, cmp=1),
}


@rule(*(f"aten::{name}" for name in BACKWARD))
def loss_backward(call: OpSpec) -> Work:
    return charge(BACKWARD[call.name.removeprefix("aten::")], call.args[1].numel)


@rule("aten::_ctc_loss", "aten::_cudnn_ctc_loss", "aten::miopen_ctc_loss", "aten::ctc_loss")
def ctc(call: OpSpec) -> Work:
    """alpha[t, s] = log Σ exp of three predecessors + log p, for 2·length + 1 states at every step."""
    return charge(form(cmp=2, add=6, exp=3, log=1), _states(call.args[0], call.args[1], call.args[3]))


@rule("aten::_ctc_loss_backward")
def ctc_backward(call: OpSpec) -> Work:
    """The same recursion backwards, and an exponential per class."""
    states = _states(call.args[1], call.args[2], call.args[4])
    return charge(form(cmp=3, add=8, exp=4, log=2), states) + Work(exp=call.args[1].numel, add=call.args[1].numel)


def _states(log_probs: Any, targets: Any, lengths: Any) -> int:
    """Steps × states over the batch; lengths given as numbers are used, else all targets are as long."""
    batch = log_probs.shape[1] if log_probs.ndim == 3 else 1
    given = isinstance(lengths, tuple)
    total = sum(2 * n + 1 for n in lengths) if given else 2 * targets.numel + batch
    return int(log_probs.shape[0] * total)
