"""What torch.autocast would cast, on stand-ins: autocast itself does nothing on the meta device.

A function mode applies autocast's policy for CUDA to each torch function as it is called: products and convolutions
run in the lower dtype, sensitive functions in float32, functions of several tensors in the widest dtype among them.
Casts of trainable float32 leaves are kept for the whole run, as autocast's cache does. Source: torch's documentation,
"Autocast Op Reference".
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Tensor = torch.Tensor
F = torch.nn.functional

LOWER = {
    "__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul",
    "multi_dot", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolution", "einsum", "gru", "gru_cell", "linear", "lstm", "lstm_cell", "matmul", "mm", "mv", "prelu",
    "rnn_tanh", "rnn_relu", "rnn_tanh_cell", "rnn_relu_cell", "scaled_dot_product_attention", "conv_tbc",
    "vecdot",
}  # fmt: skip
FULL = {
    "__pow__", "__rpow__", "acos", "asin", "binary_cross_entropy_with_logits", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cdist", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "group_norm",
    "hinge_embedding_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10", "log_softmax", "log1p", "log2",
    "logsumexp", "margin_ranking_loss", "mse_loss", "multilabel_margin_loss", "multi_margin_loss", "nll_loss",
    "norm", "pdist", "poisson_nll_loss", "pow", "prod", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss",
    "huber_loss", "soft_margin_loss", "softmax", "softplus", "sum", "tan", "triplet_margin_loss",
    "cross_entropy_loss", "nll_loss_nd",
}  # fmt: skip
FULL |= {
    f"upsample_{kind}"
    for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
}
FULL |= {f"_upsample_{kind}" for kind in ("bilinear2d_aa", "bicubic2d_aa")}
FULL |= {f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)}
FULL |= {"linalg_vector_norm", "linalg_matrix_norm", "frobenius_norm", "nuclear_norm"}
if torch._C._dispatch_has_kernel_for_dispatch_key("aten::rms_norm", "AutocastCUDA"):  # newer torch
    FULL.add("rms_norm")
LOWER |= {"linalg_multi_dot", "linalg_vecdot"}
WIDEST = {
    "grid_sampler",
    "vdot",
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "grid_sample",
    "index_put",
    "scatter_add",
    "tensordot",
    "cat",
    "stack",
}
ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


class Autocast(TorchFunctionMode):
    """Casts arguments as torch.autocast('cuda', dtype) would."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.cache: dict[int, tuple[Tensor, Tensor]] = {}

    def __enter__(self) -> Autocast:
        """Python functions of torch.nn.functional would hide what they call; let them run and see the calls instead."""
        self.asks = {name: getattr(F, name) for name in ASKS}
        for name in ASKS:
            setattr(F, name, _never)
        self.before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        torch.set_autocast_enabled("cuda", enabled=True)  # for modules that ask, as nn.LSTM does
        torch.set_autocast_dtype("cuda", self.dtype)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_autocast_enabled("cuda", self.before[0])
        torch.set_autocast_dtype("cuda", self.before[1])
        for name, ask in self.asks.items():
            setattr(F, name, ask)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in LOWER:
            target: torch.dtype | None = self.dtype
        elif name in FULL:
            target = torch.float32
        elif name in WIDEST:
            target = _widest((args, kwargs))
        else:
            return func(*args, **kwargs)
        if target is not None:
            args = self.cast(args, target)
            kwargs = {k: self.cast(v, target) for k, v in kwargs.items()}
        return func(*args, **kwargs)

    def cast(self, value: Any, target: torch.dtype) -> Any:
        """Floating tensors in the target dtype; float64 and integers are left alone, as autocast leaves them."""
        if isinstance(value, Tensor):
            if not value.is_floating_point() or value.dtype in (target, torch.float64):
                return value
            return self.lowered(value, target)
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            return type(value)([self.cast(v, target) for v in value]) if not hasattr(value, "_fields") else value
        return value

    def lowered(self, tensor: Tensor, target: torch.dtype) -> Tensor:
        if not (tensor.is_leaf and tensor.requires_grad and tensor.dtype is torch.float32 and target is self.dtype):
            return tensor.to(target)
        held = self.cache.get(id(tensor))
        if held is None:
            held = self.cache[id(tensor)] = (tensor, tensor.to(target))
        return held[1]


def _never(*_: Any) -> bool:
    return False


def _widest(value: Any) -> torch.dtype | None:
    """float32 when the lower dtype meets float32, else nothing to do."""
    found: set[torch.dtype] = set()

    def walk(item: Any) -> None:
        if isinstance(item, Tensor):
            if item.is_floating_point():
                found.add(item.dtype)
        elif isinstance(item, (list, tuple)):
            for inner in item:
                walk(inner)
        elif isinstance(item, dict):
            walk(list(item.values()))

    walk(value)
    return torch.float32 if len(found) > 1 and torch.float32 in found and torch.float64 not in found else None


def ambient() -> torch.dtype | None:
    """The dtype of an autocast the caller is in, if any."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    return None
