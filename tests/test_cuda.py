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
