"""autocast= and dtype= as a what-if: on shapes alone, the casts torch.autocast makes on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from rasp.capture import capture

from .comparing import Call, assert_sound, macs, names

BF16, HALF = torch.bfloat16, torch.float16


class Gpu:
    """torch's own autocast for CUDA over fake tensors: no device is needed to see what it casts."""

    def __init__(self, dtype):
        self.dtype, self.fake = dtype, FakeTensorMode()

    def __enter__(self):
        self.before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", self.dtype)
        self.fake.__enter__()

    def __exit__(self, *error):
        self.fake.__exit__(*error)
        torch.set_autocast_enabled("cuda", self.before[0])
        torch.set_autocast_dtype("cuda", self.before[1])
        torch.clear_autocast_cache()


low = lambda x: F.linear(x, x.new_ones(8, 8))
FUNCTIONS = {
    "linear": lambda x: F.linear(x, torch.ones(8, 8, device=x.device), torch.ones(8, device=x.device)),
    "matmul": lambda x: x @ x.T,
    "rmatmul": lambda x: torch.matmul(x.T, x),
    "mm": lambda x: torch.mm(x, x.T),
    "mv": lambda x: torch.mv(x, x[0]),
    "addmm": lambda x: torch.addmm(x[:, :4], x, x.T),
    "bmm": lambda x: torch.bmm(x[None], x.T[None]),
    "baddbmm": lambda x: torch.baddbmm(x[None, :, :4], x[None], x.T[None]),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "conv1d": lambda x: F.conv1d(x[None], torch.ones(3, 4, 3, device=x.device)),
    "conv2d": lambda x: F.conv2d(x[None, None], torch.ones(3, 1, 3, 3, device=x.device)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x[None, None], torch.ones(1, 3, 3, 3, device=x.device)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "prelu": lambda x: F.prelu(x, torch.ones(1, device=x.device)),
    "softmax": lambda x: low(x).softmax(-1),
    "F.softmax": lambda x: F.softmax(low(x), -1),
    "log_softmax": lambda x: F.log_softmax(low(x), -1),
    "softmin": lambda x: F.softmin(low(x), -1),
    "layer_norm": lambda x: F.layer_norm(low(x), (8,)),
    "group_norm": lambda x: F.group_norm(low(x), 2),
    "exp": lambda x: low(x).exp(),
    "log": lambda x: torch.log(low(x)),
    "pow": lambda x: low(x).pow(2),
    "the operator **": lambda x: low(x) ** 2,
    "number ** tensor": lambda x: 2 ** low(x),
    "rsqrt": lambda x: low(x).rsqrt(),
    "reciprocal": lambda x: low(x).reciprocal(),
    "sum": lambda x: low(x).sum(),
    "sum of a dimension": lambda x: low(x).sum(-1),
    "prod": lambda x: low(x).prod(),
    "cumsum": lambda x: low(x).cumsum(-1),
    "norm": lambda x: low(x).norm(),
    "cosine_similarity": lambda x: F.cosine_similarity(low(x), low(x)),
    "mse_loss": lambda x: F.mse_loss(low(x), low(x)),
    "l1_loss": lambda x: F.l1_loss(low(x), low(x)),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(low(x), low(x)),
    "cross_entropy": lambda x: F.cross_entropy(low(x), torch.zeros(4, dtype=torch.long, device=x.device)),
    "softplus": lambda x: F.softplus(low(x)),
    "cosh": lambda x: low(x).cosh(),
    "relu": lambda x: low(x).relu(),
    "gelu": lambda x: F.gelu(low(x)),
    "silu": lambda x: F.silu(low(x)),
    "sigmoid": lambda x: low(x).sigmoid(),
    "tanh": lambda x: low(x).tanh(),
    "mean": lambda x: low(x).mean(),
    "max": lambda x: low(x).amax(-1),
    "mul of both": lambda x: low(x) * x,
    "add of the lower": lambda x: low(x) + low(x),
    "cat of both": lambda x: torch.cat([low(x), x]),
    "stack of both": lambda x: torch.stack([low(x), x]),
    "addcmul of both": lambda x: torch.addcmul(x, low(x), low(x)),
    "atan2 of both": lambda x: torch.atan2(low(x), x),
    "tensordot of both": lambda x: torch.tensordot(low(x), x, dims=([1], [1])),
    "batch_norm": lambda x: F.batch_norm(low(x), torch.zeros(8, device=x.device), torch.ones(8, device=x.device)),
    "dropout": lambda x: F.dropout(low(x), 0.5),
    "interpolate": lambda x: F.interpolate(low(x)[None, None], scale_factor=2),
    "max_pool": lambda x: F.max_pool2d(low(x)[None, None], 2),
    "integers": lambda x: x.long() @ x.long().T,
    "doubles": lambda x: x.double() @ x.double().T,
    "an explicit cast": lambda x: low(x).float() @ low(x).float().T,
    "in place": lambda x: x.clone().add_(low(x)),
    "embedding": lambda x: F.embedding(torch.zeros(3, dtype=torch.long, device=x.device), x),
    "normalize": lambda x: F.normalize(low(x)),
    "pairwise distance": lambda x: torch.cdist(low(x), low(x)),
    "a glu": lambda x: F.glu(low(x)),
    "logsumexp": lambda x: low(x).logsumexp(-1),
    "rms_norm": lambda x: F.rms_norm(low(x), (8,)),
    "instance_norm": lambda x: F.instance_norm(low(x)[None]),
    "vector_norm": lambda x: torch.linalg.vector_norm(low(x)),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(low(x)),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.T, x]),
    "vecdot": lambda x: torch.linalg.vecdot(x, x),
    "vdot of both": lambda x: torch.vdot(low(x)[0], x[0]),
    "grid_sample of both": lambda x: F.grid_sample(low(x)[None, None], torch.zeros(1, 2, 2, 2, device=x.device)),
    "bicubic": lambda x: F.interpolate(low(x)[None, None], scale_factor=2.0, mode="bicubic", antialias=True),
    "nearest-exact": lambda x: F.interpolate(low(x)[None, None], scale_factor=2.0, mode="nearest-exact"),
    "nll_loss of images": lambda x: F.nll_loss(
        low(x)[None].log_softmax(1).bfloat16(), torch.zeros(1, 8, dtype=torch.long, device=x.device)
    ),
    "an LSTM cell": lambda x: nn.LSTMCell(8, 4, device=x.device)(low(x))[0],
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(low(x), x),
    "kl_div": lambda x: F.kl_div(low(x), x),
    "index_put of both": lambda x: x.index_put([torch.zeros(1, dtype=torch.long, device=x.device)], low(x)[:1]),
    "scatter_add of both": lambda x: x.scatter_add(0, torch.zeros(1, 8, dtype=torch.long, device=x.device), low(x)[:1]),
    "std": lambda x: low(x).std(),
    "var": lambda x: low(x).var(),
}  # fmt: skip


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this build of torch knows no kernels of a GPU")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [BF16, HALF], ids=["bfloat16", "float16"])
def test_a_function_gives_the_dtype_it_has_under_autocast_on_a_gpu(name, dtype):
    with Gpu(dtype):
        expected = FUNCTIONS[name](torch.empty(4, 8, device="cuda")).dtype
    trace, how = capture(Call(lambda m, x: FUNCTIONS[name](x)), torch.rand(4, 8), device="meta", autocast=dtype)
    assert how["autocast"] == str(dtype).removeprefix("torch.")
    assert trace.outputs[0].dtype == str(expected).removeprefix("torch.")
    assert_sound(trace)


def casts(trace):
    return sum(n == "_to_copy" for n in names(trace))


def test_weights_are_cast_once_and_activations_each_time():
    def forward(m, x):
        for _ in range(3):
            x = m.linear(x).float()
        return x

    trace, _ = capture(Call(forward), torch.rand(2, 8), autocast=True, backward=True)
    forward_casts = [n for n, op in zip(names(trace), trace.ops) if op.phase == 0 and n == "_to_copy"]
    assert len(forward_casts) == 2 + 3 + 3  # weight and bias once, the input of each call, and our own three


@pytest.mark.parametrize("autocast", [None, "bfloat16", "float16"])
def test_autocast_does_not_change_the_products(autocast):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)
    x = torch.rand(2, 5, 16)
    plain, _ = capture(model, x)
    trace, how = capture(model, x, autocast=autocast)
    assert how["capture_mode"] == "meta"
    assert macs(trace) == macs(plain)
    inner = {
        trace.specs[o.spec].args[0].dtype for o in trace.ops if trace.specs[o.spec].name in ("aten::addmm", "aten::mm")
    }
    assert inner == {autocast or "float32"}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_under_autocast(kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.net = nn.Linear(8, 8), kind(8, 6, batch_first=True)

        def forward(self, x):
            return self.net(self.linear(x))[0]

    model, x = Net(), torch.rand(2, 5, 8)
    trace, how = capture(model, x, autocast="bfloat16")
    assert how["capture_mode"] == "meta"
    assert trace.outputs[0].dtype == "bfloat16"
    assert macs(trace) == macs(capture(model, x)[0])


def test_an_autocast_around_the_capture_is_taken_up():
    model, x = nn.Linear(8, 8), torch.rand(2, 8)
    with torch.autocast("cpu", dtype=BF16):
        trace, how = capture(model, x)
        off, _ = capture(model, x, autocast=False)
    assert how["autocast"] == "bfloat16"
    assert trace.outputs[0].dtype == "bfloat16"
    assert off.outputs[0].dtype == "float32"
    assert capture(model, x)[0].outputs[0].dtype == "float32"


def test_a_real_run_under_autocast_casts_as_torch_does():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), torch.rand(2, 8)
    shapes, _ = capture(model, x, autocast="bfloat16")
    real, _ = capture(model, x, autocast="bfloat16", device="cpu")
    assert names(shapes) == names(real)
    assert [o.dtype for o in shapes.outputs] == [o.dtype for o in real.outputs] == ["bfloat16"]


# -- another dtype for the whole model ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("dtype", [BF16, "float64", "half"])
def test_a_model_as_if_it_were_of_another_dtype(dtype, device):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    trace, how = capture(model, torch.rand(2, 3, 6, 6), dtype=dtype, device=device)
    name = {"half": "float16", BF16: "bfloat16"}.get(dtype, dtype)
    assert how["dtype"] == name
    assert {t.spec.dtype for t in trace.tensors} == {name, "int64"}
    assert trace.inputs[0][1].dtype == trace.outputs[0].dtype == name
    size = 8 if name == "float64" else 2
    assert sum(s.nbytes for s in trace.storages if s.kind == "parameter") == size * sum(
        p.numel() for p in model.parameters()
    )
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert_sound(trace)


def test_another_dtype_of_a_model_given_by_shape_only():
    trace, _ = capture(nn.Linear(8, 8), input_shape=(2, 8), dtype="bf16")
    assert trace.outputs[0].dtype == "bfloat16"
