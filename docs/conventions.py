"""Write docs/conventions.md: every way of counting, with its source and what it gives for MobileNetV2."""

from __future__ import annotations

from pathlib import Path

import rasp
from rasp.zoo.adapters import source

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Conventions

A number of operations means nothing without its way of counting. Here each way has a name, and any of them can be
asked of any profile, also of one that was saved: as an argument, as a suffix of a column, and on the command line.

```python
import torch, rasp

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
profile = rasp.profile(model, input_shape=(1, 3, 32, 32))
profile.total("flops"), profile.total("flops", convention="thop"), profile.total("flops@fvcore")
rasp.stat(model, input_shape=(1, 3, 32, 32), convention="thoplw")
print(rasp.explain(profile, "rasp", "thop"))          # where and why they differ
```

```sh
rasp stat mobilenet_v2 -i 1,3,224,224 --columns name,flops,flops@thop,flops@fvcore
rasp explain mobilenet_v2 rasp thop -i 1,3,224,224
```

`flops` is the headline number of the tool, whatever it calls it (thop's MACs, fvcore's flops, torchinfo's
mult-adds). `macc` is the second number of a tool that prints two, `params` the parameters it prints; some redefine
memory columns too. `macs` is the same under every convention: multiply-accumulates of contractions, truly counted.

A convention counts by *operator* (what ran, wherever it was called), by *function* (calls of torch functions as the
model spells them, recorded when such a convention is asked for) or by *module* (calls of layers it has a formula
for; what happens between them is not seen). A tool's mistakes are part of its convention. Where the tool itself
stops with an error, the convention gives what its formulas say.

`rasp explain` tells for two of them every kind of operator or layer in which they differ, both numbers and the
reason; its lines add up to the difference of the totals. [Agreement with the tools themselves](peers.md) is tested.

To add one, write one file: `src/rasp/conventions/__init__.py` says how.
"""


def page() -> str:
    profile = rasp.profile(source("mobilenet_v2").model(virtual=False), input_shape=(1, 3, 224, 224), functions=True)
    lines = [
        "| name | counts by | MobileNetV2 | its word | what it counts | source |",
        "| --- | --- | ---: | --- | --- | --- |",
    ]
    for item in rasp.conventions():
        total, word = profile.total("flops", item.name), item.words.get("flops", "FLOPs")
        lines.append(
            f"| `{item.name}` | {item.level} | {total:,} | {word} | {item.title} | {item.source}, {item.year} |"
        )
    return "\n".join(
        [HEAD, "## All of them", "", "Written by `make docs-tables`. MobileNetV2 at 1×3×224×224.", "", *lines, ""]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
