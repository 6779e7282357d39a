"""One optimiser step counts the same as a loop, over lists, and fused."""

from __future__ import annotations

import pytest
import torch

from rasp.rules import work_of

from .recording import flops, meta, primitives, spec_of, specs_of, total

aten = torch.ops.aten
ADAM = [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}]
SGD = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"weight_decay": 0.1},
    {"momentum": 0.9, "dampening": 0.1},
]
CASES = [(torch.optim.Adam, o) for o in ADAM] + [(torch.optim.AdamW, o) for o in ADAM]
CASES += [(torch.optim.SGD, o) for o in SGD] + [(torch.optim.Adagrad, {}), (torch.optim.Adagrad, {"weight_decay": 0.1})]


def second_step(kind, options, **route):
    """The specs of a step that has its state already, without the step counters."""
    params = [torch.zeros(3, 4, requires_grad=True), torch.zeros(7, requires_grad=True)]
    optimiser = kind(params, lr=0.1, **options, **route)
    for p in params:
        p.grad = torch.ones_like(p)
    optimiser.step()
    specs = specs_of(optimiser.step)
    return [s for s in specs if any(t.numel > 1 for t in s.tensors)]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_loop_lists_and_fused_count_the_same(kind, options):
    counts = []
    for route in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        works = [work_of(spec) for spec in second_step(kind, options, **route)]
        assert None not in works
        counts.append(sum(flops(w) for w in works))
    assert counts[0] == counts[1] == counts[2] > 0, counts


OTHERS = [getattr(torch.optim, n) for n in ("RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")]


@pytest.mark.parametrize("kind", OTHERS, ids=lambda k: k.__name__)
def test_every_optimiser_is_known_either_way(kind):
    for foreach in (False, True):
        assert all(work_of(spec) is not None for spec in second_step(kind, {}, foreach=foreach))


def test_a_list_operator_is_its_operator_over_the_list():
    lists = [meta(3, 4), meta(5)], [meta(3, 4), meta(5)]
    whole = total(lambda: torch._foreach_addcmul_(*lists, lists[1], 0.5))
    parts = total(lambda: [a.addcmul_(b, b, value=0.5) for a, b in zip(*lists)])
    assert primitives(whole) == primitives(parts)
    assert whole.write == parts.write == 4 * 17
    norm = total(lambda: torch._foreach_norm(lists[0]))
    assert primitives(norm) == primitives(total(lambda: [torch.linalg.vector_norm(t) for t in lists[0]]))
    copied = total(lambda: torch._foreach_copy_(*lists))
    assert (copied.read, copied.write) == (68, 68)


def test_gradients_are_unscaled_once():
    specs = [
        spec_of(aten._amp_foreach_non_finite_check_and_unscale_.default, [torch.ones(5)], torch.zeros(1), torch.ones(1))
    ]
    work = work_of(specs[0])
    assert work is not None
    assert (work.mul, work.cmp) == (5, 5)
