"""Random numbers: `rand` counts those drawn. Dropout is x · noise with noise = bernoulli(1 - p) / (1 - p)."""

from __future__ import annotations

from ..records import OpSpec
from . import Work, bytes_read, rule
from ._forms import DROPOUT, charge, size_of


@rule(
    *(
        f"aten::{name}"
        for name in (
            "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "uniform_", "normal_",
            "random_", "exponential_", "geometric_", "cauchy_", "log_normal_", "uniform", "normal_functional", "random",
            "exponential", "geometric", "cauchy", "log_normal", "_no_grad_normal_", "_no_grad_uniform_",
            "_philox_normal", "_philox_normal_", "_philox_uniform", "_philox_uniform_", "_philox_key_split",
            "_philox_key_fold_in", "_sobol_engine_draw", "_sobol_engine_scramble_",
        )
    ),
    "prims::normal",
    "prims::uniform",
    "rngprims::philox_rand",
)  # fmt: skip
def drawn(call: OpSpec) -> Work:
    """Written without reading."""
    return Work(rand=size_of(call.out), read=0)


@rule("aten::bernoulli_")
def bernoulli_inplace(call: OpSpec) -> Work:
    """Probabilities, if a tensor, are read; what is overwritten is not."""
    return Work(rand=size_of(call.out), read=bytes_read(call, skip=(0,)))


@rule(
    "aten::bernoulli",
    "aten::poisson",
    "aten::binomial",
    "aten::_standard_gamma",
    "aten::_sample_dirichlet",
    "aten::normal",
)
def by_parameter(call: OpSpec) -> Work:
    return Work(rand=size_of(call.out))


@rule("aten::multinomial")
def multinomial(call: OpSpec) -> Work:
    """A cumulative sum of the weights, then one number and a binary search per sample."""
    weights, samples = call.args[0], size_of(call.out)
    steps = max(weights.shape[-1] - 1, 1).bit_length()
    return Work(rand=samples, add=weights.numel, div=weights.numel, cmp=samples * steps)


@rule("aten::_standard_gamma_grad", "aten::_dirichlet_grad")
def reparametrised(call: OpSpec) -> Work:
    return Work(fma=20 * size_of(call.out), exp=size_of(call.out), log=size_of(call.out))


@rule("aten::native_dropout", "aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::feature_dropout_")
def dropout(call: OpSpec) -> Work:
    """Nothing outside training."""
    n, active = size_of(call.out), call.args[2] is not False and call.args[1] > 0
    return charge(DROPOUT, n) if active else Work()


@rule("aten::_fused_dropout")
def fused_dropout(call: OpSpec) -> Work:
    return charge(DROPOUT, size_of(call.out))


@rule("aten::alpha_dropout", "aten::alpha_dropout_", "aten::feature_alpha_dropout", "aten::feature_alpha_dropout_")
def alpha_dropout(call: OpSpec) -> Work:
    n = size_of(call.out)
    return charge(DROPOUT, n) + Work(add=n) if call.args[2] and call.args[1] > 0 else Work()


@rule("aten::native_dropout_backward", "aten::_masked_scale")
def dropout_backward(call: OpSpec) -> Work:
    """g · noise"""
    return Work(mul=size_of(call.out))


@rule("aten::_fill_mem_eff_dropout_mask_")
def dropout_mask(call: OpSpec) -> Work:
    return Work(rand=size_of(call.args), read=0, write=call.args[0].nbytes)
