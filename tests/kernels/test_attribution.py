"""Kernels brought to calls and operators, on events made by hand: forward, backward, recompute, streams, gaps."""

from __future__ import annotations

from rasp.measure.attribution import NODE, Attributed, Event, Home, attribute

MAIN, AUTOGRAD, STREAM = 1, 2, 7


def ran(*events: Event, end: int = 10_000) -> Attributed:
    (found,) = attribute([Event("pass", "pass", 0, end, MAIN), *events])
    return found


def call(number: int, start: int, end: int, thread: int = MAIN) -> Event:
    return Event("call", f"call {number}", start, end, thread, id=900 + number, call=number)


def op(name: str, start: int, end: int, number: int, sequence: int = -1, thread: int = MAIN) -> Event:
    return Event("op", name, start, end, thread, number, 0, sequence)


def node(name: str, start: int, end: int, number: int, sequence: int = -1, thread: int = AUTOGRAD) -> Event:
    return Event("op", f"{NODE}: {name}", start, end, thread, number, 0, sequence, MAIN if sequence >= 0 else 0)


def kernel(name: str, start: int, end: int, link: int, number: int = 0, stream: int = STREAM) -> Event:
    return Event("kernel", name, start, end, stream, number, link)


def launch(start: int, number: int, link: int = 0) -> Event:
    return Event("launch", "cudaLaunchKernel", start, start + 5, 0, number, link)


def homes(found: Attributed) -> dict[str, Home]:
    return {piece.name: piece.home._replace(within=()) for piece in found.pieces}


def test_a_kernel_belongs_to_the_innermost_call_and_operator() -> None:
    found = ran(
        call(0, 0, 100),
        call(1, 10, 50),
        op("aten::conv2d", 12, 40, 1),
        op("aten::cudnn_convolution", 15, 30, 2),
        op("aten::add", 60, 70, 3),
        kernel("gemm", 1000, 1500, 2),
        kernel("elementwise", 1500, 1600, 3),
        kernel("bias", 1600, 1610, 1),
    )
    assert homes(found) == {
        "gemm": Home(1, "forward", "aten::cudnn_convolution"),
        "elementwise": Home(0, "forward", "aten::add"),
        "bias": Home(1, "forward", "aten::conv2d"),
    }


def test_operators_around_an_operator() -> None:
    found = ran(call(0, 0, 99), op("a", 1, 90, 1), op("b", 2, 80, 2), op("c", 3, 70, 3), kernel("k", 200, 210, 3))
    assert found.pieces[0].home == Home(0, "forward", "c", ("b", "a"))


def test_work_of_no_operator_and_no_call() -> None:
    found = ran(
        op("aten::copy_", 0, 5, 1),
        call(0, 10, 100),
        kernel("copy", 200, 210, 1),
        kernel("custom", 300, 310, 900),  # launched right under the call's own range
        kernel("stray", 400, 410, 0, 5),
        launch(50, 5),
        kernel("lost", 500, 510, 0, 6),
        kernel("late", 600, 610, 0, 7),
        launch(150, 7),
    )
    assert homes(found) == {
        "copy": Home(None, "outside", "aten::copy_"),
        "custom": Home(0, "forward", ""),
        "stray": Home(0, "forward", ""),
        "lost": Home(None, "outside", ""),
        "late": Home(None, "outside", ""),
    }


def test_backward_goes_to_the_call_whose_operator_made_the_node() -> None:
    found = ran(
        call(0, 0, 100),
        call(1, 10, 30),
        op("aten::add_", 11, 12, 1, 4),  # a counter: it makes no node, so the next has the same number
        op("aten::linear", 12, 29, 2, 4),
        op("aten::t", 13, 14, 3, 4),
        op("aten::addmm", 15, 28, 4, 5),
        call(2, 40, 60),
        op("aten::relu", 41, 59, 5, 6),
        op("aten::mean", 110, 120, 6, 7),
        node("MeanBackward0", 200, 210, 10, 7),
        op("aten::expand", 202, 208, 11, thread=AUTOGRAD),
        node("ReluBackward0", 220, 240, 12, 6),
        op("aten::threshold_backward", 222, 238, 13, thread=AUTOGRAD),
        node("AddmmBackward0", 250, 290, 14, 5),
        op("aten::mm", 255, 270, 15, thread=AUTOGRAD),
        node("torch::autograd::AccumulateGrad", 291, 299, 16),
        op("aten::add_", 292, 298, 17, thread=AUTOGRAD),
        kernel("expand", 1000, 1001, 11),
        kernel("threshold", 1010, 1020, 13),
        kernel("mm", 1020, 1050, 15),
        kernel("accumulate", 1050, 1060, 17),
    )
    assert homes(found) == {
        "expand": Home(None, "backward", "aten::expand"),
        "threshold": Home(2, "backward", "aten::threshold_backward"),
        "mm": Home(1, "backward", "aten::mm"),
        "accumulate": Home(1, "backward", "aten::add_"),
    }


def test_the_last_operator_to_begin_with_a_number_made_the_node() -> None:
    found = ran(
        call(0, 0, 10),
        op("aten::detach", 1, 2, 1, 3),
        call(1, 10, 20),
        op("aten::mul", 11, 19, 2, 3),
        node("MulBackward0", 30, 40, 3, 3),
        kernel("mul", 100, 110, 3),
    )
    assert found.pieces[0].home.call == 1


def test_numbers_of_different_threads_do_not_mix() -> None:
    other = 5
    found = ran(
        call(0, 0, 10),
        op("aten::mul", 1, 9, 1, 3),
        call(1, 0, 10, thread=other),
        op("aten::mul", 1, 9, 2, 3, thread=other),
        node("MulBackward0", 30, 40, 3, 3),
        Event("op", f"{NODE}: MulBackward0", 50, 60, AUTOGRAD, 4, 0, 3, other),
        kernel("a", 100, 110, 3),
        kernel("b", 120, 130, 4),
    )
    assert {name: home.call for name, home in homes(found).items()} == {"a": 0, "b": 1}


def test_a_checkpoint_runs_calls_again_inside_the_backward() -> None:
    found = ran(
        call(0, 0, 30),
        op("CheckpointFunction", 1, 29, 1, 3),
        node("CheckpointFunctionBackward", 40, 90, 2, 3),
        call(1, 45, 60, thread=AUTOGRAD),
        op("aten::mm", 46, 59, 3, 8, thread=AUTOGRAD),
        Event("op", f"{NODE}: MmBackward0", 65, 80, AUTOGRAD, 4, 0, 8, AUTOGRAD),
        op("aten::mm", 66, 79, 5, thread=AUTOGRAD),
        kernel("again", 100, 110, 3),
        kernel("grad", 110, 120, 5),
    )
    assert homes(found) == {"again": Home(1, "recompute", "aten::mm"), "grad": Home(1, "backward", "aten::mm")}


def test_the_optimiser_is_of_no_call() -> None:
    found = ran(
        op("Optimizer.step#AdamW.step", 0, 50, 1), op("aten::_foreach_add_", 1, 40, 2), kernel("adam", 60, 70, 2)
    )
    assert homes(found) == {"adam": Home(None, "optimiser", "aten::_foreach_add_")}


def test_gaps_busy_and_span() -> None:
    found = ran(
        call(0, 0, 100),
        op("aten::mm", 1, 90, 1),
        kernel("a", 100, 200, 1),
        kernel("b", 150, 300, 1, stream=8),  # beside a, on another stream
        kernel("c", 400, 450, 1),
        kernel("d", 420, 430, 1, stream=8),
        kernel("e", 450, 500, 1, 44),
        launch(20, 44, 1),
    )
    assert {piece.name: piece.gap for piece in found.pieces} == {"a": 0, "b": 0, "c": 100, "d": 0, "e": 0}
    assert (found.span, found.busy) == (400, 300)
    assert [piece.waited for piece in found.pieces] == [None] * 4 + [430]


def test_the_hosts_time_of_calls_and_nodes() -> None:
    found = ran(
        call(0, 0, 100),
        op("aten::mul", 5, 20, 1, 3),
        call(1, 30, 70),
        op("aten::mul", 40, 50, 2, 4),
        node("MulBackward0", 200, 260, 3, 4),
        node("MulBackward0", 260, 300, 4, 3),
    )
    assert found.host == {(0, "forward"): 60, (1, "forward"): 40, (1, "backward"): 60, (0, "backward"): 40}


def test_without_kernels_operators_stand_for_themselves() -> None:
    found = ran(call(0, 0, 100), op("aten::linear", 10, 90, 1), op("aten::addmm", 20, 80, 2), end=120)
    assert {piece.name: (piece.home.call, piece.took) for piece in found.pieces} == {
        "aten::linear": (0, 20),
        "aten::addmm": (0, 60),
    }
    assert (found.busy, found.span, found.whole) == (80, 120, 120)


def test_passes_are_apart() -> None:
    events = []
    for number, start in enumerate((0, 1000)):
        events += [
            Event("pass", "pass", start, start + 900, MAIN),
            call(number, start + 10, start + 100),
            op("aten::mm", start + 20, start + 90, number + 1),
            kernel("mm", start + 200, start + 300 + number, number + 1),
        ]
    first, second = attribute(events)
    assert [piece.took for one in (first, second) for piece in one.pieces] == [100, 101]
    assert [piece.home.call for one in (first, second) for piece in one.pieces] == [0, 1]


def test_nothing_recorded() -> None:
    assert attribute([]) == []
    assert ran().pieces == []
