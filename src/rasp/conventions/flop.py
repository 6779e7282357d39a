"""Two operations for each multiply-accumulate of a contraction, as language-model papers count."""

from __future__ import annotations

from . import Convention, convention

FLOP = convention(
    Convention(
        name="flop",
        title="two operations for each multiply-accumulate of a matrix product, convolution or attention; nothing else",
        source="the usage of papers (Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1)",
        year=2020,
        weights={"flops": {"mac": 2}, "macc": {"mac": 1}},
    )
)
