"""Read saved profiles where torch cannot be imported, and say what they hold: `python saved_profiles.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.modules["torch"] = None  # type: ignore[assignment]  # any import of torch now raises ImportError

import rasp  # noqa: E402


def contents(path: Path) -> dict:
    profile = rasp.load(path)
    table = profile.table(columns=["name", "type", "params", "macs", "flops", "mem_rw"])
    return {
        "totals": {
            name: profile.total(name) for name in ("params", "macs", "flops", "macc", "read", "write", "macs_bwd")
        },
        "rows": [[row["name"], row["macs"], row["flops"]] for row in table.dicts()],
        "text": str(profile),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    found = {path.stem: contents(path) for path in sorted(folder.glob("*.json"))}
    (folder / "read.out").write_text(json.dumps(found))
