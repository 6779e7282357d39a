"""torch → Trace: run a model once and write down what happened."""

from .later import spelled_later
from .propagate import clear_memo
from .run import capture
from .ways import ways_of

__all__ = ["capture", "clear_memo", "spelled_later", "ways_of"]
