"""Memory that a forward hands out of torch: what is written there is told, never taken as known, never read at null."""

from __future__ import annotations

import ctypes

import pytest
import torch

import rasp
from rasp.errors import CaptureError

from .comparing import Call, assert_sound, run

np = pytest.importorskip("numpy")


def fill(address, count):
    """What a kernel outside of torch does with the address of a tensor's memory."""
    ctypes.memset(address, 1, count)


def by_address(m, x, made):
    fill(made.data_ptr(), made.numel() * 4)
    return made + x


def by_array(m, x, made):
    made.numpy()[:] = 1
    return made + x


def by_result(m, x, made):
    np.sin(x.numpy(), out=made.numpy())
    return made


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("make", [torch.empty_like, torch.zeros_like, lambda x: x * 2])
@pytest.mark.parametrize("write", [by_address, by_array, by_result])
def test_what_is_written_outside_of_torch_is_uncounted(write, make, device):
    profile = rasp.profile(Call(lambda m, x: write(m, x, make(x))), (torch.rand(2, 8),), device=device)
    assert profile.capture_mode == "real"
    assert len(profile.uncounted) == 1
    assert profile.total("macs") is None
    with pytest.raises(rasp.UncountedError):
        rasp.profile(Call(lambda m, x: write(m, x, make(x))), (torch.rand(2, 8),), device=device, strict=True)


def test_what_is_only_read_is_no_gap():
    def mean(m, x):
        y = m.linear(x)
        return m.linear(y) * float(y.numpy().mean())

    profile = rasp.profile(Call(mean), (torch.rand(2, 8),))
    assert (profile.capture_mode, profile.uncounted, profile.total("macs")) == ("real", [], 2 * 2 * 64)


def test_what_torch_writes_after_is_no_gap():
    def scaled(m, x):
        y = m.linear(x)
        peak = float(y.numpy().max())
        return y.mul_(peak).add_(1)

    trace, _ = run(scaled)
    assert_sound(trace)
    assert trace.untraced == []


def test_an_address_asked_of_a_storage_is_an_error_not_null():
    def write(m, x):
        storage = x.add(1).untyped_storage()
        fill(storage.data_ptr(), 4)
        return m.linear(x)

    _, how = run(write)
    assert how["capture_mode"] == "real"
    assert "data pointer" in how["capture_reason"]["why"]


def test_a_model_without_data_says_that_memory_was_asked_for():
    model = Call(lambda m, x: x + float(x.data_ptr() == 0)).to("meta")
    with pytest.raises(CaptureError, match="asks for the address of a tensor's memory"):
        rasp.profile(model, input_shape=(2, 8))


def test_arrays_of_known_values_do_not_write_to_the_users_tensors():
    ids, before = torch.arange(4), torch.arange(4)
    model = Call(lambda m, x, i: (i.numpy().__setitem__(0, 9), x + 1)[1])
    rasp.profile(model, (torch.rand(2, 8), ids))
    assert torch.equal(ids, before)
