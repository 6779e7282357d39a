"""A sweep: models × sizes × batches × dtypes × devices, each cell in a process of its own, no finished one lost.

    found = rasp.sweep(["mobilenet_v2", "torchvision:resnet50"], scales=True, batches=[1, 8], out="sweep")
    found.rows, found.failed, found.to_pandas()

axes → plan (cells, keyed by content) → driver → executor (here, processes, cluster) → cell; the store keeps what ends.
"""

from .axes import DEFAULT_SCALES
from .face import sweep
from .results import Results

__all__ = ["DEFAULT_SCALES", "Results", "sweep"]
