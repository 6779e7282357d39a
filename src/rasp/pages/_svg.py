"""SVG in few bytes: elements, a theme for light and dark, and how wide text is."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

THEME = """
svg{--page:#fff;--ink:#1f2328;--faint:#59636e;--grid:#d9dee3;--params:#1f6feb;--feats:#d1353b;--ops:#a03bc4}
@media(prefers-color-scheme:dark){
svg{--page:#0d1117;--ink:#e6edf3;--faint:#9198a1;--grid:#2b3138;--params:#58a6ff;--feats:#ff7b72;--ops:#d28bf5}}
text{font-family:Helvetica,Arial,'Liberation Sans',sans-serif;fill:var(--ink)}.faint{fill:var(--faint)}
.grid{stroke:var(--grid);fill:none}.page{fill:var(--page)}"""
# Widths of Helvetica's characters from the space on, in thousandths of its size (Adobe Font Metrics).
WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
OTHER = 600


def width(text: str, size: float) -> float:
    """How wide text is in Helvetica of that size, and in fonts made to its measure."""
    return sum(WIDTHS[ord(c) - 32] if 32 <= ord(c) < 127 else OTHER for c in text) * size / 1000


def number(value: float) -> str:
    """A coordinate to a tenth."""
    return f"{value:.1f}".removesuffix(".0").replace("-0", "-0" if round(value, 1) else "0")


def attributes(**given: object) -> str:
    named = ((name.rstrip("_").replace("_", "-"), value) for name, value in given.items() if value is not None)
    return "".join(
        f' {name}="{number(value) if isinstance(value, float) else escape(str(value), quote=True)}"'
        for name, value in named
    )


def element(tag: str, inner: str = "", **given: object) -> str:
    return f"<{tag}{attributes(**given)}>{inner}</{tag}>" if inner else f"<{tag}{attributes(**given)}/>"


def text(words: str, x: float, y: float, size: float = 11, **given: object) -> str:
    return element("text", escape(words, quote=False), x=float(x), y=float(y), font_size=size, **given)


def drawing(wide: float, high: float, title: str, parts: Iterable[str]) -> str:
    """A whole file."""
    head = attributes(xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {number(wide)} {number(high)}", role="img")
    named = f"<title>{escape(title, quote=False)}</title>"
    page = element("rect", class_="page", width=float(wide), height=float(high))
    return "\n".join([f"<svg{head}>{named}<style>{THEME}</style>", page, *parts, "</svg>"]) + "\n"
