"""TIDSProfiler: the tree of its README, DeepSpeed's counts and report, and a model left as it was whatever happens."""

from __future__ import annotations

import copy
import gc
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp
from rasp.compat.tids import Profile, TIDSProfiler, get_model_profile
from rasp.errors import InputError

LINE = re.compile(r"\t*\(\w+\): \w+, num_params \d+, [\d.]+ms, [\d.]+% latency, input shape .+, output shape .+")


class Block(nn.Module):
    """A layer called twice, a residual sum, a list of layers that is never called itself."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()
        self.more = nn.ModuleList([nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)])
        self.idle = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.conv(x))
        for layer in self.more:
            y = layer(y)
        return torch.add(x, self.relu(y))


class Fails(nn.Module):
    """Raises what it is told to, inside a layer, after another layer ran."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.first, self.inner, self.error = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)), error
        self.inner.register_forward_pre_hook(self._maybe)

    def _maybe(self, *_: Any) -> None:
        if self.error is not None:
            raise self.error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.first(x))


def ran(model: nn.Module, *inputs: Any, **named: Any) -> TIDSProfiler:
    profiler = TIDSProfiler(model)
    profiler.start_profile()
    model(*inputs, **named)
    profiler.stop_profile()
    return profiler


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def by_name(tree: Profile) -> dict[str, Profile]:
    return {node.name: node for node in tree}


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_a_line_for_each_module_in_the_order_of_registration() -> None:
    profiler = ran(Block(), torch.rand(2, 4, 8, 8))
    text = str(profiler.generate_profile())
    assert text.endswith("\n")
    lines = text.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), text
    names = [line.split(":")[0] for line in lines]
    assert names == ["(model)", "\t(conv)", "\t(relu)", "\t(more)", "\t\t(0)", "\t\t(1)", "\t(idle)"]
    assert ", 100.0% latency, input shape [2, 4, 8, 8], output shape [2, 4, 8, 8]" in lines[0]
    assert lines[-1] == "\t(idle): Linear, num_params 12, 0ms, 0.0% latency, input shape None, output shape None"


def test_latencies_are_wall_time_of_all_calls() -> None:
    node = by_name(ran(Block(), torch.rand(2, 4, 64, 64)).generate_profile())
    assert node["model"].fwd_latency >= node["conv"].fwd_latency + node["relu"].fwd_latency > 0
    assert node["more"].fwd_latency == pytest.approx(node["0"].fwd_latency + node["1"].fwd_latency, abs=0.002)
    assert node["more"].input_shape is None
    assert node["conv"].fwd_latency_pctg == pytest.approx(
        100 * node["conv"].fwd_latency / node["model"].fwd_latency, rel=0.05
    )


def test_lists_in_lists_take_what_is_inside_them() -> None:
    model = nn.Module()
    model.outer = nn.ModuleList([nn.ModuleList([nn.Conv2d(3, 8, 3)])])
    model.forward = lambda x: model.outer[0][0](x)
    node = by_name(ran(model, torch.rand(1, 3, 32, 32)).generate_profile())
    assert node["outer"].fwd_latency > 0


def test_several_forwards_add_up() -> None:
    model, one, two = nn.Linear(4, 4), torch.rand(2, 4), torch.rand(6, 4)
    profiler = TIDSProfiler(model)
    with profiler:
        for x in (one, one, two):
            model(x)
    assert profiler.get_total_macs() == (2 + 2 + 6) * 16
    assert profiler.generate_profile().input_shape == [2, 4]  # the first
    profiler.reset_profile()
    assert profiler.get_total_macs() == profiler.get_total_duration() == 0


def test_modes_count_as_they_were_when_it_ran() -> None:
    model, x = nn.BatchNorm2d(3), torch.rand(2, 3, 4, 4)
    profiler = TIDSProfiler(model)
    with profiler:
        model.train()(x)
        model.eval()(x)
    model.train()
    assert profiler.get_total_flops() == (5 + 2) * x.numel()
    assert model.training


@pytest.mark.parametrize("model", [nn.LSTM(4, 5), nn.GRU(4, 5, bidirectional=True), nn.RNN(4, 5)], ids=repr)
def test_recurrent_layers_have_times_and_shapes(model: nn.Module) -> None:
    tree = ran(model, torch.rand(7, 2, 4)).generate_profile()
    assert tree.fwd_latency > 0
    assert tree.input_shape == [7, 2, 4]
    assert tree.output_shape == [7, 2, 10 if model.bidirectional else 5]
    assert tree.fwd_flops > 0


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, *, x: torch.Tensor) -> dict[str, Any]:
        return {"first": x, "last": self.layer(x)}


def test_keywords_and_dicts() -> None:
    profiler = ran(Named(), x=torch.rand(5, 4))
    tree = profiler.generate_profile()
    assert (tree.input_shape, tree.output_shape) == ([], [5, 3])
    assert profiler.get_total_macs() == 60


def test_a_part_of_the_model_can_be_shown_and_can_be_run() -> None:
    model = Block()
    profiler = TIDSProfiler(model)
    profiler.start_profile()
    model.conv(torch.rand(1, 4, 8, 8))
    assert profiler.get_total_macs() == 64 * 4 * 4 * 9
    part = profiler.generate_profile(model.conv, "conv", 2)
    assert str(part).startswith("\t\t(conv): Conv2d, num_params 148, ")
    assert part.fwd_latency_pctg == 100
    profiler.end_profile()


def test_types_in_the_ignore_list_are_not_timed() -> None:
    model = Block()
    profiler = TIDSProfiler(model)
    profiler.start_profile(ignore_list=[nn.ReLU])
    model(torch.rand(1, 4, 8, 8))
    node = by_name(profiler.generate_profile())
    assert (node["relu"].fwd_latency, node["relu"].input_shape) == (0, None)
    assert node["conv"].fwd_latency > 0
    profiler.end_profile()
    with pytest.raises(InputError, match="classes"):
        profiler.start_profile(ignore_list=["ReLU"])  # type: ignore[list-item]


def test_a_layer_held_twice_is_counted_once() -> None:
    layer = nn.Linear(4, 4)
    profiler = ran(nn.Sequential(layer, nn.Sequential(layer)), torch.rand(3, 4))
    assert profiler.get_total_macs() == 2 * 3 * 16
    assert profiler.get_total_params() == 20
    lines = str(profiler.generate_profile()).splitlines()
    assert len(lines) == 4
    assert lines[1].strip() == lines[3].strip()


def test_a_layer_that_calls_itself() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, times: int = 3) -> torch.Tensor:
            return self(self.layer(x), times - 1) if times else x

    profiler = ran(Again(), torch.rand(1, 4))
    assert profiler.get_total_macs() == 3 * 16


def test_counts_are_those_of_the_convention() -> None:
    model, x = Block().eval(), torch.rand(2, 4, 8, 8)
    profiler = ran(model, x)
    profile = rasp.profile(model, x, convention="deepspeed")
    assert profiler.get_total_flops() == profile.total("flops")
    assert profiler.get_total_macs() == profile.total("macc")
    assert profiler.get_total_params() == profile.total("params")
    shown = re.sub(r"[\d.]+ms, [\d.]+% latency, ", "", str(profiler.generate_profile()))
    assert shown == profile.text("tids") + "\n"


def test_as_strings() -> None:
    profiler = ran(nn.Linear(1000, 1000), torch.rand(2, 1000))
    assert profiler.get_total_flops(as_string=True) == "4.0 M"
    assert profiler.get_total_macs(as_string=True) == "2.0 MMACs"
    assert profiler.get_total_params(as_string=True) == "1.0 M"
    assert re.fullmatch(r"[\d.]+ (us|ms|s)", profiler.get_total_duration(as_string=True))


def test_a_cache_counts_as_long_as_it_was(seeded: None) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=31, bos_token_id=0, eos_token_id=30, pad_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    steps = [{"max_new_tokens": n, "min_new_tokens": n, "do_sample": False} for n in (1, 3)]
    ids = torch.randint(0, 30, (1, 4))
    short, long = TIDSProfiler(model), TIDSProfiler(model)
    with short:
        model.generate(ids, **steps[0])
    with long:
        model.generate(ids, **steps[1])
    one, three = short.get_total_macs(), long.get_total_macs()
    per_token = 31 * 16 + 12 * 16 * 16  # the head and the block's matrices
    assert one < three
    attended = three - one - 2 * per_token
    assert 0 <= attended <= 2 * 2 * 16 * (5 + 6)  # both products, over caches of 5 and 6


# -- whatever happens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_a_forward_that_fails_leaves_nothing_behind(error: BaseException) -> None:
    model, x = Fails(error), torch.rand(2, 4)
    before = hooks(model)
    profiler = TIDSProfiler(model)
    profiler.start_profile()
    with pytest.raises(type(error)):
        model(x)
    model.error = None
    model(x)  # the next one is counted as if nothing had been
    assert profiler.get_total_macs() == 2 * 2 * 16
    node = by_name(profiler.generate_profile())
    assert node["model"].fwd_latency >= node["inner"].fwd_latency > 0
    profiler.end_profile()
    assert hooks(model) == before


def test_a_with_ends_when_the_forward_fails() -> None:
    model = Fails(ValueError("no"))
    before = hooks(model)
    with pytest.raises(ValueError, match="no"), TIDSProfiler(model):
        model(torch.rand(2, 4))
    assert hooks(model) == before


def test_a_second_start_starts_anew() -> None:
    model, x = nn.Linear(4, 4), torch.rand(1, 4)
    profiler = TIDSProfiler(model)
    profiler.start_profile()
    model(x)
    profiler.start_profile()
    model(x)
    assert profiler.get_total_macs() == 16
    profiler.end_profile()
    profiler.end_profile()
    assert hooks(model) == 0


def test_a_profiler_that_goes_takes_its_hooks_along() -> None:
    model = Block()
    profiler = TIDSProfiler(model)
    profiler.start_profile()
    assert hooks(model) > 0
    del profiler
    gc.collect()
    assert hooks(model) == 0


def test_two_profilers_do_not_meet() -> None:
    model, x = Block(), torch.rand(1, 4, 4, 4)
    one, two = TIDSProfiler(model), TIDSProfiler(model)
    one.start_profile()
    two.start_profile()
    model(x)
    one.end_profile()
    model(x)
    assert two.get_total_macs() == 2 * rasp.profile(model, x, convention="deepspeed").total("macc")
    two.end_profile()
    assert hooks(model) == 0


def test_the_model_is_as_it_was() -> None:
    model = Block().train()
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    state = copy.deepcopy(model.state_dict())
    with TIDSProfiler(model) as profiler:
        model(torch.rand(1, 4, 8, 8)).sum().backward()
    profiler.print_model_profile()
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert model.conv.weight.grad is not None


def test_a_copy_is_not_watched() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.rand(1, 4)
    with TIDSProfiler(model) as profiler:
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            twin(x)
        model(x)
    assert profiler.get_total_macs() == 16


def test_the_forward_is_run_by_its_user_alone() -> None:
    calls: list[int] = []

    class Counted(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return super().forward(input)

    profiler = ran(nn.Sequential(Counted(4, 4)), torch.rand(1, 4))
    str(profiler.generate_profile())
    profiler.get_total_duration()
    profiler.get_total_params()
    assert calls == [1]


def test_nothing_to_show_is_said() -> None:
    profiler = TIDSProfiler(nn.Linear(2, 2))
    for ask in (profiler.generate_profile, profiler.get_total_flops, profiler.print_model_profile):
        with pytest.raises(InputError, match="start_profile"):
            ask()
    profiler.start_profile()
    assert profiler.get_total_flops() == 0
    assert "0ms, 0.0% latency, input shape None" in str(profiler.generate_profile())
    profiler.end_profile()
    with pytest.raises(InputError, match="got a str"):
        TIDSProfiler("resnet18")  # type: ignore[arg-type]


# -- DeepSpeed's report ------------------------------------------------------------------------------------------------


def test_the_report_has_all_depths(capsys: pytest.CaptureFixture[str]) -> None:
    profiler = ran(nn.Sequential(Block(), nn.ReLU()), torch.rand(1, 4, 8, 8))
    profiler.print_model_profile(profile_step=10, top_modules=2)
    text = capsys.readouterr().out
    assert "Profile Summary at step 10:" in text
    assert re.search(r"^params per gpu: +200 +$", text, re.M)
    assert re.search(r"^fwd MACs per GPU: +11.26 KMACs$", text, re.M)
    assert [int(depth) for depth in re.findall(r"^depth (\d):$", text, re.M)] == [0, 1, 2, 3]
    assert "    params      - {'Conv2d': '148', 'ModuleList': '40'}" in text
    assert re.search(r"^    \(more\): ModuleList\($", text, re.M)
    profiler.print_model_profile(module_depth=1, detailed=False)
    text = capsys.readouterr().out
    assert re.findall(r"^depth (\d):$", text, re.M) == ["0", "1"]
    assert "Detailed" not in text
    with pytest.raises(InputError, match="module_depth"):
        profiler.print_model_profile(module_depth=-2)


def test_the_report_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profiler = ran(nn.Linear(2, 2), torch.rand(1, 2))
    profiler.print_model_profile(output_file=tmp_path / "new" / "report.txt")
    assert capsys.readouterr().out == ""
    assert (tmp_path / "new" / "report.txt").read_text().startswith("\n----")


def test_an_engine_tells_over_how_many_machines(capsys: pytest.CaptureFixture[str]) -> None:
    class Engine:
        world_size, dp_world_size, mp_world_size = 8, 4, 2

        @staticmethod
        def train_micro_batch_size_per_gpu() -> int:
            return 16

    model = nn.Linear(999, 1)
    profiler = TIDSProfiler(model, Engine())
    with profiler:
        model(torch.rand(1, 999))
    profiler.print_model_profile(detailed=False)
    text = capsys.readouterr().out
    assert re.search(r"^world size: +8 +$", text, re.M)
    assert re.search(r"mp_size: +2.0 k +$", text, re.M)


def test_a_model_in_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).train()
    assert get_model_profile(model, (2, 4), as_string=False, print_profile=False) == (64, 32, 20)
    assert get_model_profile(model, args=[torch.rand(2, 4)], detailed=False) == ("64 ", "32 MACs", "20")
    assert "Summary" in capsys.readouterr().out
    assert model.training
    assert model[1].training
    with pytest.raises(InputError, match="input_shape"):
        get_model_profile(model)
    with pytest.raises(InputError, match="mode"):
        get_model_profile(model, (2, 4), mode="backward")
    with pytest.raises(RuntimeError):
        get_model_profile(model, (2, 5))
    assert hooks(model) == 0
