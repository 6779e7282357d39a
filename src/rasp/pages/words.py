"""The pages as Markdown: an index with tables, and a page for each model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import units
from . import Results, Subject
from ._printed import memory, operations

UNITS = """Memory is in MiB (2^20 bytes), which convnet-burden calls MB, and in MB (10^6 bytes). **Fused flops** count
as convnet-burden does: a fused multiply-add is one, a ReLU two for each element, BatchNorm nothing; feature memory is
that of every variable of the network in single precision, nothing used again, ReLUs in place; parameter memory holds
BatchNorm's means and deviations as well. **Parameters**, **MACs** and **FLOPs** are rasp's own count: what can be
learnt, multiply-accumulates alone, and every arithmetic operation, of which a multiply-accumulate is two."""
TASKS = {
    "classification": "Image classification",
    "detection": "Object detection",
    "segmentation": "Semantic segmentation",
    "keypoints": "Keypoints",
}
ERRORS = {"top1_err": "top-1 error", "top5_err": "top-5 error"}
SOURCES = {
    "MCN": "MatConvNet's website",
    "PT": "torchvision",
    "L1": "evaluated by convnet-burden's author",
    "AU": "the paper's authors",
    "SE": "SENet's authors",
}


def files(subjects: Sequence[Subject]) -> list[str]:
    """A name for each model's files: letters that every file system has, no two alike, not even in upper case."""
    made: list[str] = []
    for subject in subjects:
        name = re.sub(r"[^\w.-]+", "-", subject.name).strip("-.") or "model"
        plain, count, known = name, 1, {other.lower() for other in made} | {"index"}
        while name.lower() in known:
            count += 1
            name = f"{plain}-{count}"
        made.append(name)
    return made


# -- the index ---------------------------------------------------------------------------------------------------------


def index(
    subjects: Sequence[Subject], title: str, results: Sequence[Results], failed: Mapping[str, str], command: str
) -> str:
    """All models in tables by task, what they were published with, and the pictures."""
    named = dict(zip(map(id, subjects), files(subjects)))
    parts = [f"# {title}"]
    if command:
        parts.append(f"Written by `{command}`; every number is computed from a run of the model without data.")
    told = [pair for subject in subjects for pair in compared(subject)]
    if told:
        same = sum(printed == ours for printed, ours in told)
        parts.append(f"**{same:,} of {len(told):,} values that convnet-burden printed are the same here.**")
    parts.append(UNITS)
    for task in dict.fromkeys(subject.task for subject in subjects):
        group = [subject for subject in subjects if subject.task == task]
        parts += [f"## {TASKS.get(task, task or 'Models')}", _table(group, named), *_references(group)]
    if failed:
        lines = [f"- {_plain(name)}: {_plain(reason)}" for name, reason in failed.items()]
        parts += ["## Left out", "\n".join(lines)]
    for item in results:
        parts += [f"## {item.title}", item.words, f"![{item.title}]({item.file})"]
        if any(point.printed for point in item.points):
            parts.append(_results(item))
    return "\n\n".join(parts) + "\n"


def _table(group: Sequence[Subject], named: Mapping[int, str]) -> str:
    heads = ["model", "input", "parameters", "param mem", "feature mem", "fused flops", "MACs", "FLOPs"]
    printed, erring = any(s.printed for s in group), any(s.errors for s in group)
    heads += ["printed"] if printed else []
    heads += ["top-1 / top-5 error", "src"] if erring else []
    lines = []
    for subject in group:
        cells = [
            f"[{_plain(subject.name)}]({named[id(subject)]}.md)",
            subject.input,
            _count(subject.params),
            both(subject.param_mem),
            both(subject.feat_mem),
            _count(subject.fused),
            _count(subject.macs),
            _count(subject.flops),
        ]
        cells += [" / ".join(subject.printed.values())] if printed else []
        cells += [_errors(subject), subject.errors.get("src", "–")] if erring else []
        lines.append(cells)
    return table(heads, lines)


def _errors(subject: Subject) -> str:
    return " / ".join(subject.errors.get(name, "-") for name in ERRORS)


def _references(group: Sequence[Subject]) -> Iterator[str]:
    """Where error rates came from, and the papers."""
    found = {word: SOURCES[word] for s in group if (word := s.errors.get("src", "")) in SOURCES}
    if found:
        yield "Error rates are quoted, not measured. " + "; ".join(f"{k}: {v}" for k, v in found.items()) + "."
    cited: dict[str, list[str]] = {}
    for subject in group:
        if subject.citation:
            cited.setdefault(subject.citation, []).append(subject.name)
    if cited:
        lines = [f"- {', '.join(map(_plain, names))}: {citation}" for citation, names in cited.items()]
        yield "<details><summary>References</summary>\n\n" + "\n".join(lines) + "\n\n</details>"


def _results(item: Results) -> str:
    """Model, MACs and parameters, beside what was printed."""
    lines = []
    for point in item.points:
        ours = units.count(point.macs), units.count(point.params)
        printed = point.printed or ("", "")
        marks = ["" if one == other else " ≠" for one, other in zip(ours, printed)]
        lines.append([_plain(point.name), point.family, *ours, *(f"{p}{m}" for p, m in zip(printed, marks))])
    return table(["model", "family", "MACs", "params", "printed MACs", "printed params"], lines, left=2)


# -- a model's page ----------------------------------------------------------------------------------------------------


def page(subject: Subject, figure: str) -> str:
    """A model's cost as a whole, along its depth, and at each size and batch."""
    parts = [f"# {_plain(subject.name)}", _about(subject), _whole(subject)]
    parts += [f"![Parameter memory, feature memory and flops of each layer]({figure})"]
    if subject.sweep:
        parts += ["## At each size and batch", _swept(subject), _sweep(subject)]
    parts += [f"Citation: {subject.citation}"] if subject.citation else []
    parts += ["[All models](index.md), and what the units mean."]
    return "\n\n".join(parts) + "\n"


def _about(subject: Subject) -> str:
    words = [TASKS.get(subject.task, subject.task), f"family {subject.family}" if subject.family else ""]
    words += [f"input {subject.input}", f"{subject.params:,} parameters"]
    words += [f"{title} {subject.errors[name]} %" for name, title in ERRORS.items() if name in subject.errors]
    about = "; ".join(_plain(word) for word in words if word) + "."
    return f"{about}\n\nPublished in {_plain(subject.source)}." if subject.source else about


def _whole(subject: Subject) -> str:
    """The model at its own size, for one input."""
    rows: list[list[str]] = []
    for title, value, name in (
        ("parameter memory", subject.param_mem, "param_mem"),
        ("feature memory", subject.feat_mem, "feat_mem"),
    ):
        rows.append([title, units.size(value), units.count(value, "B"), subject.printed.get(name, "")])
    rows.append(["fused flops", _count(subject.fused), "", subject.printed.get("flops", "")])
    rows += [["MACs", _count(subject.macs), "", ""], ["FLOPs", _count(subject.flops), "", ""]]
    kept = 4 if subject.printed else 3
    return table(["one input", "", "", "printed"][:kept], [row[:kept] for row in rows])


def _swept(subject: Subject) -> str:
    told = compared(subject)
    words = f"What was run: {subject.swept}."
    if told:
        same = sum(printed == ours for printed, ours in told)
        words += f" Of {len(told)} values that convnet-burden printed of this model, {same} are the same."
    return words


def _sweep(subject: Subject) -> str:
    heads = ["input", "memory, 1 image", "fused flops", "memory, 128 images", "fused flops"]
    featured = any("feat_c" in row for row in subject.sweep)
    heads[1:1] = ["features"] if featured else []
    heads += ["printed, 128 images"] if subject.told else []
    lines = []
    for at, row in enumerate(subject.sweep):
        size = f"{row['input_h']} × {row['input_w']}"
        if "reason" in row:
            lines.append([size, _plain(row["reason"]), *[""] * (len(heads) - 2)])
            continue
        features = [" × ".join(str(row[side]) for side in ("feat_h", "feat_w", "feat_c"))] if featured else []
        lines.append([size, *features, *_cost(row, 1), *_cost(row, 128)])
        if subject.told:
            lines[-1].append(" / ".join(subject.told[at][name] for name in ("feat_mem", "flops")))
    return table(heads, lines)


def _cost(row: Mapping[str, Any], batch: int) -> tuple[str, str]:
    return both(row["feat_mem"] * batch), _count(row["flops"] * batch)


def compared(subject: Subject) -> list[tuple[str, str]]:
    """Every value that was printed of a model, and ours in the same form."""
    found: list[tuple[str, str]] = []
    if subject.printed:
        found += [(subject.printed["param_mem"], memory(subject.param_mem))]
        found += [(subject.printed["feat_mem"], memory(subject.feat_mem))]
        found += [(subject.printed["flops"], operations(subject.fused, subject.printed["flops"]))]
    for row, told in zip(subject.sweep, subject.told):
        batch = int(told["batch"])
        found += [(told[name], str(row[name])) for name in ("input_h", "input_w", "feat_h", "feat_w", "feat_c")]
        found += [(told["feat_mem"], memory(batch * row["feat_mem"]))]
        found += [(told["flops"], operations(batch * row["flops"], told["flops"]))]
    return found


# -- cells -------------------------------------------------------------------------------------------------------------


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first columns stand left, numbers right."""
    marks = ["---" if at < left else "---:" for at in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, marks, *lines))


def both(nbytes: float) -> str:
    """Bytes in both kinds of units: '232.56 MiB (243.86 MB)'."""
    decimal = units.count(nbytes, "B")
    return f"{units.size(nbytes)} ({decimal})"


def _count(value: float | None) -> str:
    return "–" if value is None else units.count(value)


def _plain(words: object) -> str:
    """Text that Markdown leaves alone, on one line."""
    return " ".join(str(words).split()).replace("|", "\\|").replace("_", "\\_").replace("*", "\\*").replace("<", "\\<")
