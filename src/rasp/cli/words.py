"""Words of the command line → values: inputs, factory arguments, lists of names."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from ..errors import InputError


def inputs(words: Sequence[str], batch: int | None = None) -> dict[str, Any]:
    """'1,3,224,224', 'ids:int64=1,128' → input_shape and dtypes, as rasp.profile takes them."""
    names, shapes, dtypes = [], [], []
    for word in words:
        found = re.fullmatch(r"(?:([A-Za-z_]\w*)?(?::(\w+))?=)?([\d,]+)", word.replace(" ", ""))
        if found is None or not found[3].strip(","):
            raise InputError(f"-i {word} is not understood: write 1,3,224,224 or ids:int64=1,128.")
        shape = tuple(int(size) for size in found[3].split(",") if size)
        shapes.append(shape if batch is None else (batch, *shape[1:]))
        names.append(found[1])
        dtypes.append(found[2])
    if any(names) and not all(names):
        raise InputError("Name every -i or none: names are keyword arguments of the model's forward.")
    if len(set(filter(None, names))) < len([n for n in names if n]):
        raise InputError("An input is named twice with -i.")
    if all(names):
        typed = {name: dtype for name, dtype in zip(names, dtypes) if dtype}
        return {"input_shape": dict(zip(names, shapes)), "dtypes": typed or None}
    given = dtypes if any(dtypes) else None
    return {"input_shape": shapes[0] if len(shapes) == 1 else shapes, "dtypes": given}


def keywords(words: Sequence[str]) -> dict[str, Any]:
    """'depth=4', 'act=gelu' → arguments of a factory: Python values where they are, text else."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--kw {word} is not understood: write name=value.")
        found[name] = _value(value)
    return found


def names(words: Sequence[str] | None) -> list[str] | None:
    """'flops,params' and repeats of the option → names."""
    if not words:
        return None
    return [name.strip() for word in words for name in word.split(",") if name.strip()]


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
