"""Models that live on a GPU: counted where they are, unmoved and untouched, as they count anywhere else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rasp
from equality_cases import MODELS
from process_state import differences, model_state

pytestmark = pytest.mark.gpu


@pytest.fixture(params=MODELS, ids=str)
def case(request):
    return request.param


def untouched(model, work):
    """Do something to a model with rasp; nothing of the model or the random states may have changed."""
    state, random = model_state(model), torch.cuda.get_rng_state()
    result = work()
    assert differences(state, model_state(model)) == []
    assert torch.equal(random, torch.cuda.get_rng_state())
    return result


def counts(case, model, inputs_on, **how):
    args, kwargs = case.inputs(inputs_on, batch=2)
    return untouched(model, lambda: counted(model, args, kwargs, how))


def counted(model, args, kwargs, how):
    profile = rasp.profile(model, args, kwargs=kwargs, **how)
    assert profile.uncounted == []
    return [profile.total(column) for column in ("params", "macs", "flops", "macs_bwd")], profile.capture_mode


def test_a_model_on_the_gpu_is_counted_without_touching_the_gpu(case):
    expected, how = counts(case, case.build("cpu"), "cpu")
    model = case.build("cuda")
    args, kwargs = on_gpu(case)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    assert counted(model, args, kwargs, {}) == (expected, how)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before, "something was allocated on the GPU"


def on_gpu(case):
    args, kwargs = case.inputs("cuda", batch=2)
    if any(hasattr(item, "__dataclass_fields__") for item in args):
        pytest.skip("the test moves no dataclasses")
    return args, kwargs


def test_a_real_run_on_the_gpu_counts_the_same(case):
    expected, _ = counts(case, case.build("cpu"), "cpu")
    assert counts(case, case.build("cuda"), "cuda", device="cuda") == (expected, "real")


def test_a_real_backward_on_the_gpu_counts_the_same(case):
    model = case.build("cpu")
    if not any(p.requires_grad for p in model.parameters()):
        pytest.skip("nothing to train")
    (params, macs, _, macs_bwd), _ = counts(case, model, "cpu", backward=True)
    found, mode = counts(case, case.build("cuda"), "cuda", backward=True, device="cuda")
    assert ([found[0], found[1], found[3]], mode) == ([params, macs, macs_bwd], "real")


def test_a_model_of_the_cpu_runs_on_the_gpu_and_stays_where_it_is(case):
    model = case.build("cpu")
    expected, _ = counts(case, model, "cpu")
    assert counts(case, model, "cpu", device="cuda")[0] == expected
    assert {p.device.type for p in model.parameters()} <= {"cpu"}


def test_autocast_asked_for_is_autocast_as_the_gpu_does_it():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.Flatten(), nn.Linear(8 * 36, 10)).cuda()
    x = torch.rand(2, 3, 8, 8, device="cuda")
    asked = rasp.profile(model, x, autocast="float16")
    with torch.autocast("cuda", torch.float16):
        real = rasp.profile(model, x, device="cuda")
    for column in ("macs", "flops"):
        assert asked.total(column) == real.total(column)
    dtypes = [[row["dtype"] for row in p.rows(columns=["dtype"]) if row["kind"] == "call"] for p in (asked, real)]
    assert dtypes[0] == dtypes[1]


def test_a_broken_forward_on_the_gpu_leaves_the_model_as_it_was():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            self.norm(x)
            raise KeyboardInterrupt

    model = Broken().cuda().train()
    x = torch.rand(3, 4, device="cuda")

    def interrupted():
        for how in ({}, {"device": "cuda"}):
            with pytest.raises(KeyboardInterrupt):
                rasp.profile(model, x, mode="train", **how)

    untouched(model, interrupted)


# -- kernels, CUDA graphs and energy -----------------------------------------------------------------------------------


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width in (3, 64, 64, 64):
        layers += [nn.Conv2d(width, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval().cuda()


def test_kernel_time_over_modules_is_that_of_the_graph():
    model, x = convolutions(), torch.rand(64, 3, 128, 128, device="cuda")
    found = untouched(model, lambda: rasp.profile(model, x, timing="whole", kernels=True, seconds=1.0))
    *rows, total = found.rows(columns=["kernel_time", "kernels"])
    assert sum(row["kernel_time"] or 0.0 for row in rows) == total["kernel_time"]
    assert found.kernels.on == "device"
    assert found.kernels.graph_latency is not None, found.kernels.why_no_graph
    assert total["kernel_time"] == pytest.approx(found.kernels.graph_latency, rel=0.1)
    assert found.kernels.outside < 0.1 * found.kernels.total
    convolved = {row["name"]: row["kernel_time"] for row in rows}
    assert convolved[".3"] > convolved[".15"], "a convolution of 64 channels takes longer than the last layer"


def test_a_backward_on_the_gpu_belongs_to_its_modules():
    model, x = convolutions(), torch.rand(8, 3, 64, 64, device="cuda")
    found = untouched(model, lambda: rasp.profile(model, x, backward=True, kernels=True))
    rows = {row["name"]: row["kernel_time_bwd"] for row in found.rows(columns=["name", "kernel_time_bwd"])}
    assert all(rows[f".{number}"] > 0 for number in (0, 1, 2, 3, 15))
    phases = {row["phase"]: row["seconds"] for row in found.kernels.by_phase()}
    assert rows["total"] > 0.9 * phases["backward"], "little of a backward may be of no module"


def test_many_small_kernels_are_launch_bound_and_large_ones_are_not():
    small = nn.Sequential(*(nn.Linear(8, 8) for _ in range(200))).eval().cuda()
    found = rasp.profile(small, torch.rand(1, 8, device="cuda"), timing=True, seconds=1.0)
    assert found.verdict.kind == "launch-bound", found.verdict
    large = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))).eval().cuda()
    found = rasp.profile(large, torch.rand(8192, 4096, device="cuda"), timing=True, seconds=1.0)
    assert found.verdict.kind != "launch-bound", found.verdict


def test_what_cannot_be_captured_as_a_graph_says_why():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x) * (1.0 if x.sum().item() > 0 else 2.0)

    model = Reads().cuda()
    found = rasp.profile(model, torch.rand(2, 4, device="cuda"), kernels=True)
    assert found.kernels.graph_latency is None
    assert "cannot be captured" in found.kernels.why_no_graph
    assert torch.rand(3, device="cuda").sum().item() >= 0, "the device still works"


def test_energy_is_that_of_the_boards_counter():
    model, x = convolutions(), torch.rand(64, 3, 128, 128, device="cuda")
    found = untouched(model, lambda: rasp.profile(model, x, energy=True, seconds=3.0)).energy
    if not found.available:
        pytest.skip(found.reason)
    assert found.seconds >= 3.0
    assert 0 < found.idle < found.gross
    assert 20 < found.power < 3000
