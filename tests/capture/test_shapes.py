"""Shape rules against the real CPU kernels: shape, dtype, and the stride of every dimension that has one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from rasp.capture.shapes import SHAPES

aten = torch.ops.aten
Tensor = torch.Tensor
META = torch.device("meta")


# -- layouts of one shape -------------------------------------------------------------------------------------------


def contiguous(t: Tensor) -> Tensor:
    return t.contiguous()


def innermost_channels(t: Tensor) -> Tensor:
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(t.dim())
    return t.contiguous() if form is None else t.contiguous(memory_format=form)


def transposed(t: Tensor) -> Tensor:
    return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else t


def expanded(t: Tensor) -> Tensor:
    return t[:1].expand(t.shape) if t.dim() and t.shape[0] else t


def sliced(t: Tensor) -> Tensor:
    if not t.dim():
        return t
    wide = t.new_empty((*t.shape[:-1], 2 * t.shape[-1]))
    wide[..., ::2] = t
    return wide[..., ::2]


LAYOUTS = [contiguous, innermost_channels, transposed, expanded, sliced]
SIZES = [(4,), (3, 4), (1, 4), (2, 3, 4), (2, 3, 4, 5), (2, 1, 4, 5), (1, 3, 1, 1), (2, 3, 2, 3, 4), (0, 3), ()]
FLOATS = [torch.float32, torch.bfloat16, torch.float64]


def described(out: Any) -> list[Any]:
    """Shape, strides that matter and dtype of every output."""
    found = []
    for t in out if isinstance(out, (tuple, list)) else [out]:
        if not isinstance(t, tuple):
            t = None if not isinstance(t, Tensor) else (tuple(t.shape), t.stride(), t.dtype)
        if t is not None:
            shape, stride, dtype = t
            empty = 0 in shape
            strides = None if empty else tuple(s for n, s in zip(shape, stride) if n != 1)
            found.append((tuple(shape), strides, dtype))
    return found


def compare(func: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether the rule had an answer; if so it must be the real kernel's."""
    on_meta, meta_kwargs = tree_map_only(
        Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META), (args, kwargs)
    )
    rule = SHAPES[func._schema.name]
    try:
        real = func(*args, **kwargs)
    except (RuntimeError, IndexError, ValueError):
        assert refuses(rule, on_meta, meta_kwargs), (func, [getattr(a, "shape", a) for a in args])
        return False
    answer = rule(on_meta, meta_kwargs)
    if answer is None:
        return False
    assert described(answer) == described(real), (func, [getattr(a, "shape", a) for a in args])
    return True


def refuses(rule: Any, args: Any, kwargs: Any) -> bool:
    """Whether a shape rule leaves a call that the kernel refuses to the kernel, or refuses it as well."""
    try:
        return rule(args, kwargs) is None
    except (RuntimeError, IndexError, ValueError):
        return True


def grid(*makers: Callable[[Tensor], Tensor], sizes: Any = SIZES, dtypes: Any = FLOATS) -> Any:
    for size, dtype in product(sizes, dtypes):
        x = torch.rand(size).to(dtype)
        for layout in makers or LAYOUTS:
            yield layout(x)


# -- elementwise ----------------------------------------------------------------------------------------------------

UNARY = (
    "relu sigmoid tanh silu gelu hardtanh hardswish hardsigmoid leaky_relu elu mish exp log sqrt rsqrt neg abs sin cos "
    "erf softplus reciprocal floor ceil round log1p expm1 logit log2 bernoulli"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(name):
    func = getattr(aten, name).default
    answered = [compare(func, x) for x in grid()]
    assert sum(answered) >= len(answered) // 2


@pytest.mark.parametrize(
    "name", ["relu_", "sigmoid_", "tanh_", "silu_", "hardtanh_", "hardswish_", "exp_", "neg_", "sqrt_"]
)
def test_functions_that_write_their_tensor(name):
    func = getattr(aten, name).default
    assert sum(compare(func, x) for x in grid(contiguous, innermost_channels, transposed))


PAIRS = [
    ((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((3, 4), ()),
    ((), ()), ((3, 4), (5,)), ((1, 1), (3, 4)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((0, 3), (1, 3)),
]  # fmt: skip
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool]


@pytest.mark.parametrize(
    "func",
    [aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.rsub.Tensor, aten.maximum.default,
     aten.minimum.default, aten.atan2.default, aten.fmod.Tensor, aten.remainder.Tensor, aten.pow.Tensor_Tensor,
     aten.eq.Tensor, aten.lt.Tensor, aten.ge.Tensor, aten.logical_and.default, aten.logical_or.default,
     aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor],
    ids=str,
)  # fmt: skip
def test_functions_of_two_tensors(func):
    answered = 0
    for (a, b), left, right in product(PAIRS, DTYPES, DTYPES):
        for one, two in product((contiguous, innermost_channels, transposed, expanded), repeat=2):
            x, y = one((torch.rand(a) + 1).to(left)), two((torch.rand(b) + 1).to(right))
            answered += compare(func, x, y)
    assert answered > 20


@pytest.mark.parametrize(
    "func",
    [aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.pow.Tensor_Scalar, aten.eq.Scalar, aten.gt.Scalar],
    ids=str,
)
def test_functions_of_a_tensor_and_a_number(func):
    assert sum(compare(func, x, number) for x in grid(dtypes=DTYPES) for number in (2, 2.5, True))


@pytest.mark.parametrize(
    "func", [aten.logical_not.default, aten.isnan.default, aten.isinf.default, aten.bitwise_not.default], ids=str
)
def test_questions_about_one_tensor(func):
    for x in grid(dtypes=[torch.bool, torch.int64, torch.float32]):
        compare(func, x)


@pytest.mark.parametrize(
    "func", [aten.add_.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.sub_.Tensor, aten.copy_.default], ids=str
)
def test_writing_the_first_of_two(func):
    answered = 0
    for (a, b), left, right in product(PAIRS, DTYPES, DTYPES):
        for layout in (contiguous, transposed):
            answered += compare(func, layout(torch.rand(a).to(left)), torch.rand(b).to(right))
    assert answered


def test_where_and_masked_fill():
    answered = 0
    for (a, b), dtype, layout in product(PAIRS, FLOATS, LAYOUTS):
        x, y = layout(torch.rand(a).to(dtype)), torch.rand(b).to(dtype)
        answered += compare(aten.where.self, x > 0.5, x, y)
        answered += compare(aten.where.self, y > 0.5, x, x)
        answered += compare(aten.masked_fill.Scalar, x, y > 0.5, 0.0)
        answered += compare(aten.masked_fill.Tensor, x, x > 0.5, torch.tensor(0.0))
    assert answered > 50


# -- products -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_matrix_products(dtype):
    def t(*shape):
        return torch.rand(shape).to(dtype)

    for layout, other in product((contiguous, transposed, sliced), repeat=2):
        for n, k, m in product((0, 1, 3), (1, 4), (1, 5)):
            assert compare(aten.mm.default, layout(t(n, k)), other(t(k, m)))
            assert compare(aten.addmm.default, t(m), layout(t(n, k)), other(t(k, m)))
            compare(aten.addmm.default, t(n, m), layout(t(n, k)), other(t(k, m)))
            assert compare(aten.bmm.default, layout(t(2, n, k)), other(t(2, k, m)))
            compare(aten.baddbmm.default, t(2, n, m), layout(t(2, n, k)), other(t(2, k, m)))
            compare(aten.baddbmm.default, t(1, 1, m), layout(t(2, n, k)), other(t(2, k, m)))


BAD_PRODUCTS = {
    "mm inner": (aten.mm.default, (3, 4), (5, 6)),
    "mm of three dimensions": (aten.mm.default, (2, 3, 4), (4, 5)),
    "bmm inner": (aten.bmm.default, (2, 3, 4), (2, 5, 6)),
    "bmm batch": (aten.bmm.default, (2, 3, 4), (3, 4, 6)),
    "addmm bias": (aten.addmm.default, (5,), (3, 4), (4, 6)),
    "baddbmm batch": (aten.baddbmm.default, (3, 3, 6), (2, 3, 4), (2, 4, 6)),
    "baddbmm width": (aten.baddbmm.default, (2, 3, 5), (2, 3, 4), (2, 4, 6)),
}


@pytest.mark.parametrize("name", BAD_PRODUCTS)
def test_products_that_do_not_fit(name):
    func, *shapes = BAD_PRODUCTS[name]
    assert not compare(func, *map(torch.rand, shapes))


@pytest.mark.parametrize("func", [aten.mm.default, aten.bmm.default], ids=str)
def test_products_of_two_dtypes(func):
    shape = (4, 4) if func is aten.mm.default else (2, 4, 4)
    assert not compare(func, torch.rand(shape), torch.rand(shape).double())


# -- convolution ----------------------------------------------------------------------------------------------------

CONVOLUTIONS = {
    "plain": ((2, 4, 9, 9), (6, 4, 3, 3), {}),
    "stride and padding": ((2, 4, 9, 8), (6, 4, 3, 3), {"stride": [2, 1], "padding": [1, 0]}),
    "one number for both": ((2, 4, 9, 8), (6, 4, 3, 3), {"stride": [2], "padding": [1], "dilation": [1]}),
    "dilation": ((2, 4, 9, 9), (6, 4, 3, 3), {"dilation": [2, 2]}),
    "groups": ((2, 4, 9, 9), (6, 2, 3, 3), {"groups": 2}),
    "depthwise": ((2, 4, 9, 9), (4, 1, 3, 3), {"groups": 4}),
    "1 x 1": ((2, 4, 9, 9), (6, 4, 1, 1), {}),
    "1 x 1 of one pixel": ((2, 4, 1, 1), (6, 4, 1, 1), {}),
    "one channel": ((2, 1, 9, 9), (6, 1, 3, 3), {}),
    "to one channel": ((2, 4, 9, 9), (1, 4, 3, 3), {}),
    "to one pixel": ((2, 4, 3, 3), (6, 4, 3, 3), {}),
    "a batch of one": ((1, 4, 9, 9), (6, 4, 3, 3), {}),
    "signals": ((2, 4, 9), (6, 4, 3), {}),
    "volumes": ((2, 4, 5, 6, 7), (6, 4, 3, 3, 3), {}),
    "transposed": ((2, 4, 5, 5), (4, 6, 3, 3), {"transposed": True}),
    "too small": ((2, 4, 2, 2), (6, 4, 3, 3), {}),
    "channels that do not fit": ((2, 5, 9, 9), (6, 4, 3, 3), {}),
    "groups that do not fit": ((2, 4, 9, 9), (5, 2, 3, 3), {"groups": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions(name, dtype, bias):
    size, weight, how = CONVOLUTIONS[name]
    n = len(size) - 2
    x, w = torch.rand(size).to(dtype), torch.rand(weight).to(dtype)
    b = torch.rand(weight[0]).to(dtype) if bias and not how.get("transposed") else None
    rest = (
        how.get("stride", [1] * n), how.get("padding", [0] * n), how.get("dilation", [1] * n),
        how.get("transposed", False), [0] * n, how.get("groups", 1),
    )  # fmt: skip
    for one, two in product(LAYOUTS, (contiguous, innermost_channels)):
        compare(aten.convolution.default, one(x), two(w), b, *rest)


@pytest.mark.parametrize("mask", [[True, True, True], [False, True, True], [True, False, False]])
def test_convolution_backward(mask):
    x, w = torch.rand(2, 4, 9, 9), torch.rand(6, 2, 3, 3)
    grad = torch.rand(2, 6, 7, 7)
    rest = ([6], [1, 1], [0, 0], [1, 1], False, [0, 0], 2, mask)
    assert compare(aten.convolution_backward.default, grad, x, w, *rest)
    compare(aten.convolution_backward.default, innermost_channels(grad), innermost_channels(x), w, *rest)


# -- normalisation and reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [(4, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 4), (2, 1, 3, 3)])
def test_batch_norm(training, size):
    c = size[1]
    for layout in LAYOUTS:
        x = layout(torch.rand(size))
        affine = torch.rand(c), torch.rand(c), torch.zeros(c), torch.ones(c)
        compare(aten.native_batch_norm.default, x, *affine, training, 0.1, 1e-5)
        compare(aten.native_batch_norm.default, x, None, None, *affine[2:], training, 0.1, 1e-5)
        if training:
            compare(aten.native_batch_norm.default, x, *affine[:2], None, None, training, 0.1, 1e-5)


def test_batch_norm_of_the_wrong_width():
    c = [torch.rand(4)] * 4
    assert not compare(aten.native_batch_norm.default, torch.rand(2, 3, 5, 5), *c, True, 0.1, 1e-5)


def test_layer_norm():
    answered = 0
    for x in grid(dtypes=[torch.float32, torch.float64]):
        for n in (1, 2):
            shape = list(x.shape[-n:]) if x.dim() >= n else [4]
            answered += compare(
                aten.native_layer_norm.default,
                x,
                shape,
                torch.rand(shape, dtype=x.dtype),
                torch.rand(shape, dtype=x.dtype),
                1e-5,
            )
            answered += compare(aten.native_layer_norm.default, x, shape, None, None, 1e-5)
    assert answered > 20
    assert not compare(aten.native_layer_norm.default, torch.rand(2, 3), [4], None, None, 1e-5)


def test_group_norm():
    for layout in LAYOUTS:
        x = layout(torch.rand(2, 6, 4, 5))
        compare(aten.native_group_norm.default, x, torch.rand(6), torch.rand(6), 2, 6, 20, 3, 1e-5)


@pytest.mark.parametrize("func", [aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default], ids=str)
def test_reductions(func):
    answered = 0
    for x in grid(dtypes=[torch.float32, torch.bfloat16, torch.int64]):
        for dims, keep in product(([0], [-1], [0, 1], [1, 2], [-1, -2], [0, 0], [0, -2], [7], [-7], []), (True, False)):
            answered += compare(func, x, dims, keep)
    assert answered > 20


def test_softmax():
    for func, x, dim in product((aten._softmax.default, aten._log_softmax.default), grid(), (0, 1, -1, 4)):
        compare(func, x, dim, False)


@pytest.mark.parametrize(
    "func", [aten._softmax_backward_data.default, aten.sigmoid_backward.default, aten.tanh_backward.default], ids=str
)
def test_backward_of_elementwise_functions(func):
    for x in grid(dtypes=[torch.float32]):
        rest = (-1, torch.float32) if "softmax" in str(func) else ()
        compare(func, x, x.clone() if x.is_contiguous() else x, *rest)
        compare(func, x, torch.rand(x.shape), *rest)


# -- moving data ----------------------------------------------------------------------------------------------------


def test_cat():
    answered = 0
    for x in grid():
        for dim in (0, 1, -1, 5):
            answered += compare(aten.cat.default, [x, x], dim)
            answered += compare(aten.cat.default, [x, torch.rand(x.shape).to(x.dtype), x], dim)
    assert answered > 30
    compare(aten.cat.default, [torch.rand(0), torch.rand(2, 3)], 0)
    compare(aten.cat.default, [torch.rand(2, 3), torch.rand(3)], 0)
    compare(aten.cat.default, [torch.rand(2, 3), torch.rand(2, 4)], 0)
    compare(aten.cat.default, [torch.rand(2, 3), torch.rand(2, 4)], 1)
    compare(aten.cat.default, [torch.rand(2, 3), torch.rand(2, 3).double()], 1)


@pytest.mark.parametrize("form", [None, torch.preserve_format, torch.contiguous_format, torch.channels_last])
def test_clones_and_casts(form):
    for x in grid(dtypes=[torch.float32, torch.int64]):
        if form is not torch.channels_last or x.dim() == 4:
            compare(aten.clone.default, x, memory_format=form)
            compare(aten._to_copy.default, x, dtype=torch.float16, memory_format=form)


def test_embedding():
    weight = torch.rand(7, 4)
    for shape, dtype in product([(3,), (2, 3), (), (0,)], [torch.int64, torch.int32]):
        assert compare(aten.embedding.default, weight, torch.zeros(shape, dtype=dtype))


@pytest.mark.parametrize("size", SIZES)
def test_rearranging(size):
    for layout in LAYOUTS:
        x = layout(torch.rand(size))
        compare(aten.roll.default, x, [1], [0])
        compare(aten.roll.default, x, [1, 2], [0, -1])
        compare(aten.flip.default, x, [0])
        compare(aten.flip.default, x, [5])
        compare(aten.tril.default, x)
        compare(aten.triu.default, x, 1)


@pytest.mark.parametrize("amounts", [[1, 1], [1, 2, 3, 4], [-1, 0], [0, 0, 0, 0, 1, 1], [-9, 0], [1, 1, 1]])
def test_padding(amounts):
    for x in grid(dtypes=[torch.float32]):
        compare(aten.constant_pad_nd.default, x, amounts, 0.0)


@pytest.mark.parametrize(
    "name", ["upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa"]
)
def test_resampling(name):
    flags = () if "nearest" in name else (False,)
    for layout, size in product(LAYOUTS, [(2, 3, 4, 5), (2, 1, 4, 5), (1, 3, 4, 5)]):
        compare(getattr(aten, name).default, layout(torch.rand(size)), [8, 7], *flags)


def test_grid_sampler():
    grid_ = torch.rand(2, 5, 6, 2)
    for layout in LAYOUTS:
        compare(aten.grid_sampler_2d.default, layout(torch.rand(2, 3, 4, 4)), grid_, 0, 0, False)
    assert not compare(aten.grid_sampler_2d.default, torch.rand(3, 3, 4, 4), grid_, 0, 0, False)


@pytest.mark.parametrize("size", [(2, 3, 9, 8), (3, 9, 8), (1, 1, 4, 4), (2, 3, 1, 1)])
def test_max_pooling(size):
    ways = product(([2, 2], [3], [3, 2]), ([], [2], [1, 2]), ([0], [1, 1], [2]), ([1], [2, 1]), (False, True))
    for way in ways:
        for layout in (contiguous, innermost_channels):
            compare(aten.max_pool2d_with_indices.default, layout(torch.rand(size)), *way)


def test_writing_at_places():
    for x in grid(contiguous, transposed, sizes=[(3, 4), (2, 3, 4)], dtypes=[torch.float32]):
        compare(aten.masked_fill_.Scalar, x, x > 0.5, 0.0)
        compare(aten.index_put.default, x, [torch.tensor([0, 1])], torch.rand(x[:2].shape))
        compare(aten.index_put_.default, x, [torch.tensor([0, 1])], torch.rand(x[:2].shape))
        compare(aten.index_add_.default, x, 0, torch.tensor([0, 1]), torch.rand(x[:2].shape))


# -- as a whole -----------------------------------------------------------------------------------------------------


class Compared(TorchDispatchMode):
    """Every operator of a real run beside its rule."""

    def __init__(self):
        super().__init__()
        self.answers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func._schema.name in SHAPES and not func._schema.is_mutable:
            self.answers += self.compare(func, args, kwargs, out)
        return out

    def compare(self, func, args, kwargs, out):
        on_meta = tree_map_only(
            Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META), (args, kwargs)
        )
        answer = SHAPES[func._schema.name](*on_meta)
        if answer is not None:
            assert described(answer) == described(out), func
        return answer is not None


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "name",
    ["own:convolutional", "torchvision:mobilenet_v3_small", "torchvision:shufflenet_v2_x0_5", "timm:convnext_atto"],
)
def test_the_rules_hold_over_models_forward_and_backward(name, form):
    from equality_cases import MODELS

    case = {c.name: c for c in MODELS}.get(name)
    if case is None:
        pytest.skip("its library is not installed")
    model = case.build("cpu").train().to(memory_format=form)
    args, _ = case.inputs(batch=2)
    with Compared() as compared:
        model(args[0].to(memory_format=form)).mean().backward()
    assert compared.answers > 5
