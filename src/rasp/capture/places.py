"""Places in torch where other profilers put functions of their own: whether a call came by way of one.

A tool that replaces torch.nn.functional.gelu hears of `F.gelu(x)`, not of a model that took the function before
(`self.act = F.gelu`, `from torch import einsum`), and not of torch.conv2d, the same function elsewhere. So that the
record can tell, functions of ours stand in these places while the function level is recorded, and leave with it.
"""

from __future__ import annotations

import functools
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

PLACES = {
    "torch.nn.functional": """linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d relu prelu
        elu leaky_relu relu6 silu gelu batch_norm layer_norm instance_norm group_norm avg_pool1d avg_pool2d avg_pool3d
        max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d upsample interpolate softmax embedding
        scaled_dot_product_attention""",
    "torch": "matmul mm bmm addmm baddbmm mul add einsum",
    "torch.Tensor": "matmul __matmul__ mm bmm addmm mul add",
    "einops": "einsum",  # where the model has imported it
}


class Listener(Protocol):
    """Who is told of a call that came by way of a place, and makes it."""

    def through(self, place: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


_current = threading.local()
_lock = threading.RLock()
_depth = 0
_standing: list[tuple[Any, str, bool, Any]] = []
ORIGINALS: dict[Any, Callable[..., Any]] = {}  # a function of ours → the one it stands before


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Tell `listener` of the calls of this thread that come by way of a place."""
    global _depth
    outer = getattr(_current, "listener", None)
    with _lock:
        _depth += 1
        if _depth == 1:
            _stand()
    _current.listener = listener
    try:
        yield
    finally:
        _current.listener = outer
        with _lock:
            _depth -= 1
            if _depth == 0:
                _leave()


def _stand() -> None:
    for home, names in PLACES.items():
        owner = _owner(home)
        for name in names.split() if owner is not None else ():
            _standing.append((owner, name, name in vars(owner), vars(owner).get(name)))
            setattr(owner, name, _before(f"{home}.{name}", getattr(owner, name)))


def _leave() -> None:
    while _standing:
        owner, name, own, before = _standing.pop()
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)  # it was inherited


def _owner(home: str) -> Any:
    return pkgutil.resolve_name(home) if home.partition(".")[0] in sys.modules else None


@functools.cache
def _before(place: str, func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def stand(*args: Any, **kwargs: Any) -> Any:
        listener = getattr(_current, "listener", None)
        return func(*args, **kwargs) if listener is None else listener.through(place, func, args, kwargs)

    ORIGINALS[stand] = func
    return stand
