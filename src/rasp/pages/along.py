"""A model's profile along its depth: parameter memory, feature memory and flops of every layer, one above the other.

The three panels share their axis: a bar in one stands over the same layer's bars in the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import Layer, Subject
from ._scales import even, plain
from ._svg import drawing, element, number, text, width

WIDE, LEFT, RIGHT = 900.0, 64.0, 16.0
TOP, HIGH, GAP, BELOW = 34.0, 132.0, 46.0, 40.0
MEMORY = ((1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B"))
FLOPS = ((1e12, "TFLOPs"), (1e9, "GFLOPs"), (1e6, "MFLOPs"), (1e3, "KFLOPs"), (1.0, "FLOPs"))
Units = Sequence[tuple[float, str]]


def drawn(subject: Subject) -> str:
    layers = subject.layers
    panels = (
        ("Parameter memory", "params", [layer.param_mem for layer in layers], MEMORY),
        ("Feature memory", "feats", [layer.feat_mem for layer in layers], MEMORY),
        ("Flops (a fused multiply-add is one)", "ops", [layer.flops for layer in layers], FLOPS),
    )
    parts = [text(f"{subject.name}, {subject.input}", LEFT, 18.0, 13, font_weight="bold")]
    for at, (title, colour, values, units) in enumerate(panels):
        parts += _panel(title, colour, values, units, layers, TOP + 18 + at * (HIGH + GAP))
    high = TOP + 18 + 3 * HIGH + 2 * GAP + BELOW
    words = f"depth: {len(layers)} layers in the order they run"
    parts.append(text(words, LEFT + (WIDE - LEFT - RIGHT) / 2, high - 10, 11, text_anchor="middle", class_="faint"))
    return drawing(WIDE, high, f"{subject.name}: cost along the network", parts)


def _panel(
    title: str, colour: str, values: Sequence[float], units: Units, layers: Sequence[Layer], top: float
) -> list[str]:
    """A title, an axis, bars, and the name of the tallest."""
    highest = max(values, default=0)
    factor, unit = next(((f, u) for f, u in units if highest >= f), units[-1])
    ticks = even(highest / factor)
    span, inner = ticks[-1] * factor, WIDE - LEFT - RIGHT
    total = sum(values)
    summed = next((f"{total / f:.4g} {u}" for f, u in units if total >= f), f"0 {unit}")
    made = [text(f"{title}: {summed}", LEFT, top - 8, 11)]
    for tick in ticks:
        y = top + HIGH * (1 - tick / ticks[-1])
        made.append(element("path", d=f"M{number(LEFT)} {number(y)}h{number(inner)}", class_="grid"))
        made.append(text(plain(tick), LEFT - 6, y + 3.5, 10, text_anchor="end", class_="faint"))
    turned = f"rotate(-90 14 {number(top + HIGH / 2)})"
    made.append(text(unit, 14.0, top + HIGH / 2, 10, text_anchor="middle", transform=turned, class_="faint"))
    made.append(element("path", d=_bars(values, span, top, inner), style=f"fill:var(--{colour})"))
    if highest:
        made.append(_named(values, layers, top, inner, highest / span))
    made.append(element("path", d=f"M{number(LEFT)} {number(top + HIGH)}h{number(inner)}", style="stroke:var(--faint)"))
    return made


def _bars(values: Sequence[float], span: float, top: float, inner: float) -> str:
    """All bars as one path; one that is there is at least a hair high, and wide enough to be seen."""
    each = inner / max(1, len(values))
    wide = max(1.2, min(each * 0.8, 26.0))
    found = []
    for at, value in enumerate(values):
        if value > 0:
            high = max(0.4, HIGH * value / span)
            x = LEFT + each * (at + 0.5) - wide / 2
            found.append(f"M{number(x)} {number(top + HIGH)}v{number(-high)}h{number(wide)}v{number(high)}z")
    return "".join(found)


def _named(values: Sequence[float], layers: Sequence[Layer], top: float, inner: float, share: float) -> str:
    """The name of the layer with the tallest bar, above the panel's right end or beside its bar."""
    at = max(range(len(values)), key=lambda index: values[index])
    layer = layers[at]
    words = f"most: {layer.name or layer.kind} ({layer.kind}), {values[at] / sum(values):.0%}"
    if width(words, 10) > inner * 0.55:
        words = f"most: {layer.kind} {at + 1}, {values[at] / sum(values):.0%}"
    x = LEFT + inner / max(1, len(values)) * (at + 0.5)
    y = top + HIGH * (1 - share)
    mark = element("path", d=f"M{number(x - 3)} {number(y - 6)}h6l-3 4z", style="fill:var(--ink)")
    return mark + text(words, LEFT + inner, top - 8, 10, text_anchor="end", class_="faint")
