"""TIDSProfiler over this engine: `from rasp.compat.tids import TIDSProfiler`.

It came with torch_profiler, and takes after DeepSpeed's flops profiler: `get_model_profile` is that one's function.
"""

from __future__ import annotations

from ._model import get_model_profile
from ._tree import Profile
from .profiler import TIDSProfiler

__all__ = ["Profile", "TIDSProfiler", "get_model_profile"]
