"""What every test gets: one thread, no network, and proof that nothing was left behind in the process."""

from __future__ import annotations

import os
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
import torch._dynamo  # replaces torch.manual_seed when it is imported: let that be before any test
from torch._dynamo.mutation_guard import install_generation_tagging_init

from process_state import process_state

torch.set_num_threads(1)
install_generation_tagging_init()  # replaces nn.Module.__init__ when a compiled function is called


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No test may leave a global hook, a dispatch mode, a patched function or a changed default in the process."""
    before = process_state()
    yield
    after = process_state()
    changed = [key for key in before if before[key] != after[key]]
    assert not changed, f"left behind: {', '.join(changed)}"


@pytest.fixture
def seeded():
    """The same random numbers for every run of a test."""
    random.seed(0)
    torch.manual_seed(0)


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device, and this machine has none")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


def pytest_addoption(parser):
    parser.addoption("--update-goldens", action="store_true", help="rewrite the files in tests/goldens")
