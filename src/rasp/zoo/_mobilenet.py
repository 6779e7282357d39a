"""MobileNet's table of layers, which the classifier and the detector on it share."""

from __future__ import annotations

STEM = 32
# Channels out of each pair, and the stride of its depthwise convolution.
SETTINGS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
