"""Draw docs/tree.svg: what a terminal shows for the built-in MobileNetV2. `make docs-tables` runs it."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

import rasp
import rasp.zoo

PICTURE = Path(__file__).with_name("tree.svg")
COMMAND = "rasp stat mobilenet_v2 --depth 2"


def drawn() -> str:
    """The picture, which loads nothing from elsewhere: the reader's own monospaced font."""
    model = rasp.zoo.get("mobilenet_v2").build()
    profile = rasp.profile(model, input_shape=(1, 3, 224, 224))
    console = Console(record=True, width=104, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(profile.tree(depth=2))
    svg = console.export_svg(title=COMMAND, theme=MONOKAI, unique_id="rasp")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S).replace("Fira Code", "ui-monospace, Menlo, Consolas")


if __name__ == "__main__":
    PICTURE.write_text(drawn())
