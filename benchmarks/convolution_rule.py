"""Which workspace cuDNN's heuristic picks, learned from measured convolutions and checked on held-out ones.

    python benchmarks/convolution_rule.py            held-out figures: shapes against other shapes, five ways
    python benchmarks/convolution_rule.py --write    grow the trees from all of them into src/rasp/memory/

The measurements are tests/data/h200_conv_workspace.csv: bytes that a convolution requests beyond its output, by shape,
batch, dtype and layout, on an H200 with torch 2.11. A shape's rows (batches, dtypes, layouts) are all on one side.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rasp.memory._convolution import PASSES, Convolution

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "tests" / "data" / "h200_conv_workspace.csv"
TREES = ROOT / "src" / "rasp" / "memory" / "hopper_convolution.json"
SHAPE = (
    "dim",
    "transposed",
    "in_channels",
    "out_channels",
    "kernel",
    "stride",
    "padding",
    "dilation",
    "groups",
    "in_hw",
)
DEPTH, LEAF, GAIN = 14, 5, 0.3


@dataclass
class Table:
    """The measured rows of one pass, as arrays."""

    features: Any
    names: list[str]
    candidates: list[str]
    sizes: Any
    measured: Any
    whole: Any
    shapes: list[tuple[str, ...]]

    @property
    def cost(self) -> Any:
        """The error of each candidate as a share of input, output and weight, at most 2."""
        return np.minimum(np.abs(self.sizes - self.measured[:, None]) / self.whole[:, None], 2.0)


def rows() -> list[dict[str, str]]:
    with FACTS.open(newline="") as file:
        return list(csv.DictReader(file))


def geometry(row: dict[str, str]) -> Convolution:
    """A row as the rule sees it."""
    size = 4 if row["dtype"] == "float32" else 2
    axes = {
        name: tuple(map(int, row[name].split("x"))) for name in ("kernel", "stride", "padding", "dilation", "in_hw")
    }
    batch, made = int(row["batch"]), int(row["out_channels"])
    return Convolution(
        batch, int(row["in_channels"]), made, int(row["groups"]), axes["kernel"], axes["stride"], axes["padding"],
        axes["dilation"], prod(axes["in_hw"]), int(row["out_bytes"]) // (size * batch * made), size,
        row["transposed"] == "1", row["layout"] == "nhwc",
    )  # fmt: skip


def table(part: str, found: list[dict[str, str]]) -> Table:
    found = [row for row in found if row[part]]
    convolutions = [geometry(row) for row in found]
    sizes = [c.sizes(part) for c in convolutions]
    return Table(
        np.array([[float(v) for v in c.features.values()] for c in convolutions]),
        list(convolutions[0].features), list(sizes[0]), np.array([list(s.values()) for s in sizes], float),
        np.array([float(row[part]) for row in found]), np.array([float(c.whole) for c in convolutions]),
        [tuple(row[name] for name in SHAPE) for row in found],
    )  # fmt: skip


def grown(data: Table, index: Any, depth: int = DEPTH) -> Any:
    """A tree, as nested lists: [feature, threshold, below, above], or [candidate, low, high] for a leaf."""
    cost = data.cost[index]
    total = cost.sum(0)
    best = int(total.argmin())
    split = _best_split(data, index, cost) if depth and len(index) >= 2 * LEAF else None
    if split is None or total[best] - split[0] < GAIN:
        shares = data.measured[index] / data.whole[index]
        low, high = np.quantile(shares, (0.05, 0.95))
        return [data.candidates[best], round(float(low), 3), round(float(high), 3)]
    _, feature, threshold = split
    below = data.features[index, feature] <= threshold
    return [data.names[feature], threshold, grown(data, index[below], depth - 1), grown(data, index[~below], depth - 1)]


def _best_split(data: Table, index: Any, cost: Any) -> tuple[float, int, float] | None:
    """The split after which the two sides' best candidates err least."""
    best: tuple[float, int, float] | None = None
    for feature in range(data.features.shape[1]):
        values = data.features[index, feature]
        order = np.argsort(values, kind="stable")
        sorted_values, sums = values[order], np.cumsum(cost[order], 0)
        cuts = np.nonzero(sorted_values[1:] > sorted_values[:-1])[0]
        cuts = cuts[(cuts + 1 >= LEAF) & (len(index) - cuts - 1 >= LEAF)]
        if not len(cuts):
            continue
        error = sums[cuts].min(1) + (sums[-1] - sums[cuts]).min(1)
        at = int(error.argmin())
        if best is None or error[at] < best[0] - 1e-12:
            threshold = float((sorted_values[cuts[at]] + sorted_values[cuts[at] + 1]) / 2)
            best = (float(error[at]), feature, float(f"{threshold:.6g}"))
    return best


def predicted(data: Table, tree: Any, index: Any) -> Any:
    """Bytes that a tree says, for these rows."""
    columns = {name: position for position, name in enumerate(data.candidates)}
    features = {name: position for position, name in enumerate(data.names)}
    found = []
    for row in index:
        node = tree
        while len(node) == 4:
            node = node[2] if data.features[row, features[node[0]]] <= node[1] else node[3]
        found.append(data.sizes[row, columns[node[0]]])
    return np.array(found)


def crude(data: Table, index: Any) -> Any:
    """The rule of one line: nothing for depthwise and 1x1 of stride 1, else input, output and weight."""
    column = {name: data.features[index, position] for position, name in enumerate(data.names)}
    free = (column["depthwise"] > 0) | ((column["volume"] == 1) & (column["stride"] == 1))
    return np.where(free, 0, data.whole[index])


def held_out(data: Table, repeats: int = 5) -> tuple[Any, Any]:
    """Errors of the tree and of the crude rule on the half of the shapes that was not looked at."""
    ours, simple = [], []
    shapes = sorted(set(data.shapes))
    for seed in range(repeats):
        seen = set(random.Random(seed).sample(shapes, len(shapes) // 2))
        inside = np.array([shape in seen for shape in data.shapes])
        learned, checked = np.nonzero(inside)[0], np.nonzero(~inside)[0]
        tree = grown(data, learned)
        for errors, found in ((ours, predicted(data, tree, checked)), (simple, crude(data, checked))):
            errors.append(np.abs(found - data.measured[checked]) / data.whole[checked])
    return np.concatenate(ours), np.concatenate(simple)


def leaves(tree: Any) -> int:
    return 1 if len(tree) == 3 else leaves(tree[2]) + leaves(tree[3])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="grow the trees from all rows into the package")
    asked = parser.parse_args()
    found, trees = rows(), {}
    for part in PASSES:
        data = table(part, found)
        trees[part] = grown(data, np.arange(len(data.measured)))
        known = np.mean(data.cost.min(1) < 0.05)
        print(f"{part:12s} one of the named sizes is within 5 % of I+O+W for {known:.1%} of the rows")
        ours, simple = held_out(data)
        for name, errors in (("tree", ours), ("crude rule", simple)):
            print(f"{part:12s} {name:11s} held out: within 5 % of I+O+W {np.mean(errors < 0.05):.1%}, "
                  f"20 % {np.mean(errors < 0.2):.1%}, mean {np.minimum(errors, 2).mean():.3f}")  # fmt: skip
        print(
            f"{part:12s} {leaves(trees[part])} leaves from {len(data.measured)} rows of {len(set(data.shapes))} shapes"
        )
    if asked.write:
        TREES.write_text(json.dumps(trees, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
