"""Models of the sweep's tests: good ones, and such as fail in every way a cell can."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn


def model(name: str) -> str:
    """One of these, as the command line names it."""
    return f"{Path(__file__)}:{name}"


def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


def strict() -> nn.Module:
    """Takes images of 16 × 16 and nothing else."""
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 14 * 14, 2))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, input_ids):
        return self.head(self.embedding(input_ids))


class Two(nn.Module):
    """Takes an image and a row of numbers, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 + 5, 2)

    def forward(self, image, numbers):
        return self.head(torch.cat((self.trunk(image).mean((2, 3)), numbers), 1))


class _Acting(nn.Module):
    """Does something while it is run."""

    def __init__(self, act) -> None:
        super().__init__()
        self.act, self.layer = act, net()

    def forward(self, x):
        self.act()
        return self.layer(x)


def killed() -> nn.Module:
    return _Acting(lambda: os.kill(os.getpid(), signal.SIGKILL))


def segfault() -> nn.Module:
    return _Acting(lambda: ctypes.string_at(0))


def exits() -> nn.Module:
    return _Acting(lambda: os._exit(7))


def leaves() -> nn.Module:
    return _Acting(lambda: sys.exit(3))


def hangs() -> nn.Module:
    return _Acting(lambda: time.sleep(1000))


def raises() -> nn.Module:
    return _Acting(lambda: [][1])


def hungry() -> nn.Module:
    """Wants 64 GiB of memory at once."""
    torch.ones(1 << 34)
    return net()


def greedy() -> nn.Module:
    """Takes memory bit by bit, outside of torch."""
    return _Acting(lambda: [bytearray(1 << 22) for _ in range(1 << 20)])


def wrong() -> nn.Module:
    raise ValueError("it cannot be built today")


def fells() -> nn.Module:
    """Kills the parent of its parent the first time it is run: on Ray, the worker."""
    flag = Path(os.environ["SWEEP_TEST_FLAGS"]) / "felled"

    def act() -> None:
        if not flag.exists():
            flag.touch()
            status = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(1000)

    return _Acting(act)


def once() -> nn.Module:
    """Is killed the first time it is run; the folder of SWEEP_TEST_FLAGS remembers."""
    flag = Path(os.environ["SWEEP_TEST_FLAGS"]) / "once"

    def act() -> None:
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return _Acting(act)


def slow() -> nn.Module:
    """Takes a while, and says that it was run, and by which process."""
    folder = Path(os.environ["SWEEP_TEST_FLAGS"])

    def act() -> None:
        (folder / f"ran-{time.monotonic_ns()}-{os.getpid()}").touch()
        time.sleep(float(os.environ.get("SWEEP_TEST_SECONDS", "0.3")))

    return _Acting(act)
