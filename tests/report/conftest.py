"""Rules that a test adds are taken away again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rasp import rules


@pytest.fixture
def own_rules() -> Iterator[None]:
    rules.load()
    before = [(table, dict(table)) for table in (rules.RULES, rules.MODULE_RULES)]
    yield
    for table, kept in before:
        table.clear()
        table.update(kept)
