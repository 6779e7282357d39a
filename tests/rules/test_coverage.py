"""Which operators have a rule: all that models can meet, and none by a wildcard."""

from __future__ import annotations

import random
import subprocess
import sys
import types
import unittest
from itertools import islice

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from rasp import rules
from rasp.rules import FIELDS, FREE, RULES, work_of

from .recording import flops, specs_of

rules.load()
RULED = {name.split(".")[0] for name in RULES}

# Operators that torch always runs as their parts, so they are never met themselves.
PARTS = """
    corrcoef cov cumulative_trapezoid diff einsum fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2 fft_hfftn
    fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft
    fft_rfft2 fft_rfftn gradient istft linalg_cond linalg_matrix_norm linalg_matrix_power linalg_matrix_rank
    linalg_norm linalg_tensorinv linalg_tensorsolve linalg_vander matrix_exp_backward matrix_power nuclear_norm
    stft trapezoid trapz vander
"""
# Operators of TorchScript on lists and numbers, tests of torch itself, and one that looks for an algorithm.
NO_MODEL = """
    Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit ScalarImplicit __contains__
    __getitem__ __interpolate __upsample __upsample_bilinear __upsample_nearest _cslt_sparse_mm_search _foobar
    _set_item _tensor_to_list _test_ambiguous_defaults _test_autograd_multiple_dispatch _test_functorch_fallback
    _test_optional_filled_intlist _test_optional_floatlist _test_optional_intlist _test_parallel_materialize
    _test_string_default _test_warn_in_autograd clear count dict dist_backward from_file get get_gradients grad
    items keys pop popitem remove setdefault sorted update
"""


# Gone from torch 2.14.
OLDER = {f"aten::{name}" for name in "cholesky qr rename rename_ refine_names align_to align_as align_tensors".split()}
CHECKED = {"quantile", "nanquantile"}  # torch 2.11 compares their bounds, which takes values, on the CPU only


def operators() -> dict[str, bool]:
    """Every aten:: operator that takes or gives a tensor, and whether torch only knows it as its parts."""
    found: dict[str, bool] = {}
    for schema in torch._C._jit_get_all_schemas():
        kinds = [str(value.type) for value in (*schema.arguments, *schema.returns)]
        if schema.name.startswith("aten::") and any("Tensor" in kind for kind in kinds):
            full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
            divided = (
                torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
                if _exists(full)
                else False
            )
            found[schema.name] = found.get(schema.name, False) or divided
    return found


def _exists(name: str) -> bool:
    return torch._C._dispatch_has_kernel(name)


def test_every_operator_has_a_rule_is_free_or_is_named_here():
    unknown = {name.removeprefix("aten::") for name in operators() if name not in RULED and name not in FREE}
    assert unknown <= {*PARTS.split(), *NO_MODEL.split()}, sorted(unknown - {*PARTS.split(), *NO_MODEL.split()})


def test_what_is_left_to_its_parts_has_parts():
    divided = operators()
    assert all(divided.get(f"aten::{name}", True) for name in PARTS.split())


def test_every_core_operator_is_known():
    core = {
        f"aten::{name}"
        for name in dir(torch.ops.aten)
        if isinstance(getattr(torch.ops.aten, name), torch._ops.OpOverloadPacket)
        for overload in getattr(torch.ops.aten, name).overloads()
        if torch.Tag.core in getattr(getattr(torch.ops.aten, name), overload).tags
    }
    core |= {name for name in operators() if _is_core(name.removeprefix("aten::"))}
    assert len(core) > 150
    assert core <= RULED | FREE, sorted(core - RULED - FREE)


def _is_core(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(torch.Tag.core in getattr(packet, o).tags for o in packet.overloads())


@pytest.mark.skipif(not torch.__version__.startswith("2.14"), reason="other versions of torch have other operators")
def test_no_rule_is_for_an_operator_that_does_not_exist():
    known = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert {name for name in RULED | FREE if name.startswith(("aten::", "prims::"))} <= known | OLDER


def test_nothing_is_both_free_and_ruled():
    assert not RULED & FREE


def test_rules_need_no_torch():
    code = "import sys, rasp.rules as r; r.load(); assert len(r.RULES) > 1000; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def database():
    """torch's own database of operators with sample inputs, and the generators left as they were."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:  # only a base class of torch's own tests, which do not run here
            sys.modules["expecttest"] = types.ModuleType("expecttest")
            sys.modules["expecttest"].TestCase = unittest.TestCase
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


@pytest.fixture
def generators_restored():
    states = torch.get_rng_state(), random.getstate()
    numpy = sys.modules["numpy"].random if "numpy" in sys.modules else None
    drawn = numpy.get_state() if numpy else None
    yield
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if numpy:
        numpy.set_state(drawn)


def samples(op, dtype, count, grad=False):
    if dtype not in op.supported_dtypes("cpu"):
        return []
    # The function itself: the method around it inspects the whole call stack for every sample.
    return list(islice(op.sample_inputs_func(op, torch.device("cpu"), dtype, grad), count))


def evaluated(op, sample, grad):
    """A run of one sample; with `grad` its backward too."""

    def run():
        out = op(sample.input, *sample.args, **sample.kwargs)
        results = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
        given = [t for t in tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
        if grad and results:
            total = sum(t.abs().sum() if t.is_complex() else t.sum() for t in results)
            torch.autograd.grad(total, [t for t in given if t.requires_grad], allow_unused=True)

    return run


def moved(sample):
    """The sample on the meta device."""

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to("meta").requires_grad_(value.requires_grad)

    parts = (tree_map(move, part) for part in (sample.input, sample.args, sample.kwargs))
    first, args, kwargs = parts
    return type(sample)(first, args=args, kwargs=kwargs)


def specs_or_none(run):
    """None where torch itself refuses the sample (no meta kernel, a value needed)."""
    try:
        return specs_of(run)
    except Exception:
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("generators_restored")
def test_every_operator_of_torchs_database_counts(database):
    """On floats with the backward, on integers, on complex numbers: a rule each, whole numbers, none negative."""
    met, unknown, wrong = set(), set(), set()
    for op in database:
        for dtype, count in ((torch.float32, 3), (torch.int64, 2), (torch.complex64, 2)):
            grad = dtype == torch.float32 and op.supports_autograd
            for sample in samples(op, dtype, count, grad):
                for spec in specs_or_none(evaluated(op, sample, grad)) or ():
                    met.add(spec.name)
                    work = work_of(spec)
                    if work is None:
                        unknown.add(spec.name)
                    elif any(type(n := getattr(work, f)) is not int or n < 0 for f in FIELDS):
                        wrong.add(spec.name)
    assert len(met) > 450
    assert not unknown
    assert not wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("generators_restored")
def test_the_device_does_not_change_the_count(database):
    """The CPU runs fused kernels where meta runs parts: the same MACs and flops."""
    different, compared = {}, 0
    for op in database:
        for sample in samples(op, torch.float32, 2, op.supports_autograd):
            here = specs_or_none(evaluated(op, sample, op.supports_autograd))
            there = specs_or_none(evaluated(op, moved(sample), op.supports_autograd))
            if here and there:
                compared += 1
                counts = [
                    [sum(f(work_of(s)) for s in specs) for f in (flops, lambda w: w.mac)] for specs in (here, there)
                ]
                if counts[0] != counts[1] and op.name not in CHECKED:
                    different[op.name] = counts
    assert compared > 800
    assert not different
