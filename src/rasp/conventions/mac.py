"""What papers and model tables mean by MACs, and by FLOPs where they take a MAC for one: contractions only."""

from __future__ import annotations

from . import Convention, convention

MAC = convention(
    Convention(
        name="mac",
        title="one multiply-accumulate of a matrix product, convolution or attention; nothing else counts",
        source="the usage of papers (He et al., Deep Residual Learning, 2015, table 1) and of timm's model tables",
        year=2015,
        weights={"flops": {"mac": 1}, "macc": {"mac": 1}},
        words={"flops": "MACs"},
    )
)
