"""One line on stderr that tells how far a long measurement is; nothing where nobody looks."""

from __future__ import annotations

import sys
import time

PATIENCE = 1.0  # seconds before anything is said
PACE = 0.2


class Progress:
    """Writes over its own line, on a terminal or when asked to; cleared at the end."""

    def __init__(self, wanted: bool | None = None) -> None:
        self.shown = sys.stderr.isatty() if wanted is None else wanted
        self.patience = 0.0 if wanted else PATIENCE
        self.began = self.last = time.monotonic()
        self.width = 0

    def say(self, words: str) -> None:
        now = time.monotonic()
        if not self.shown or now - self.began < self.patience or (self.width and now - self.last < PACE):
            return
        self.last = now
        sys.stderr.write(f"\r{words:<{self.width}}")
        sys.stderr.flush()
        self.width = max(self.width, len(words))

    def close(self) -> None:
        if self.width:
            sys.stderr.write(f"\r{'':<{self.width}}\r")
            sys.stderr.flush()
            self.width = 0
