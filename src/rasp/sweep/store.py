"""A folder of results: a record and a profile for each finished cell, whole or not there, and an index of them.

    out/index.jsonl              a line for each finished cell, with a digest of its own
    out/cells/ab/abcdef….json    the record: what the cell was, how it ended, its numbers
    out/profiles/ab/abcdef….json its profile, for rasp.load
    out/claims                   locked, byte by byte, while drivers work on cells

The index is there for speed: what it lacks is read from the records, and what is damaged counts as not done. Claims
are locks of the operating system, so that those of a driver that was killed are gone with it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import FileError, RaspError
from ..profile import load
from .outcomes import OK, Outcome

try:
    import fcntl
except ImportError:  # Windows: two drivers then compute the same cell twice and write the same record
    fcntl = None  # type: ignore[assignment]

VERSION = 1
Record = dict[str, Any]


class Store:
    """Results by the key of their cell. Used as a context, so that the index and the claims are closed."""

    def __init__(self, folder: str | Path | None) -> None:
        self.temporary = TemporaryDirectory(prefix="rasp-sweep-") if folder is None else None
        self.folder = Path(self.temporary.name if self.temporary else folder or "")
        self.records: dict[str, Record] = {}
        self._index: int | None = None
        self._claims: int | None = None

    def __enter__(self) -> Store:
        try:
            for name in ("cells", "profiles"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self._read_index()
            self._index = os.open(self.folder / "index.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            self._claims = os.open(self.folder / "claims", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            self.__exit__()
            raise FileError(f"{self.folder} cannot hold the results of a sweep: {error.strerror or error}.") from error
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (self._index, self._claims):
            if handle is not None:
                os.close(handle)
        self._index = self._claims = None

    # -- asking ----------------------------------------------------------------------------------------------------

    def record(self, key: str) -> Record | None:
        """The record of a cell that was run; None where there is none or it is damaged."""
        return self.records.get(key) or self._read(key)

    def fresh(self, key: str) -> Record | None:
        """The record as it lies in the folder now: another driver may have written it."""
        self.records.pop(key, None)
        return self._read(key)

    def profile(self, key: str) -> Path:
        return self._path("profiles", key)

    def answers(self, record: Record, columns: Sequence[str]) -> bool:
        """Whether a record tells these columns; those that were not asked for then are read from its profile."""
        missing = [name for name in columns if name not in record["values"]]
        if not missing or record["status"] != OK:
            return True
        if record["profile"] is None:
            return False
        try:
            found = load(self.profile(record["key"]))
            record["values"] |= {name: found.total(name) for name in missing}
        except RaspError:  # its run did not record what they ask for
            return False
        return True

    # -- writing ---------------------------------------------------------------------------------------------------

    def add(self, key: str, outcome: Outcome, facts: Mapping[str, Any]) -> Record:
        """Keep a finished cell: the profile first, then the record that speaks of it, then its line in the index."""
        record: Record = {"schema": "rasp.sweep.cell", "version": VERSION, "key": key, **facts}
        record |= {name: getattr(outcome, name) for name in ("status", "reason", "values", "seconds", "where")}
        record["profile"] = None
        if outcome.profile is not None:
            content = outcome.profile.encode()
            _write(self.profile(key), content)
            record["profile"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        _write(self._path("cells", key), (_signed(record) + "\n").encode())
        self._note(key, record)
        return record

    def _note(self, key: str, record: Record) -> None:
        self.records[key] = record
        if self._index is not None:
            line = _signed({"record": record, "files": self._stamps(key, record)}) + "\n"
            os.write(self._index, line.encode())

    # -- claims ----------------------------------------------------------------------------------------------------

    def claim(self, key: str) -> bool:
        """Whether this driver is the one to work on a cell; its lock goes when it is released or the driver ends."""
        if fcntl is None or self._claims is None:
            return True
        try:
            fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
        except OSError as error:
            is_taken = error.errno in (errno.EACCES, errno.EAGAIN)
            return not is_taken  # a file system without locks: drivers then do the same and write alike
        return True

    def release(self, key: str) -> None:
        if fcntl is not None and self._claims is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._claims, fcntl.LOCK_UN, 1, _place(key))

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_index(self) -> None:
        """Take what the index says of files that are as it says; mend an index whose last line was cut off."""
        path = self.folder / "index.jsonl"
        if not path.exists():
            return
        content = path.read_bytes()
        for line in content.splitlines():
            found = _checked(line)
            if found is not None and self._stamps(found["record"]["key"], found["record"]) == found["files"]:
                self.records[found["record"]["key"]] = found["record"]
        if content and not content.endswith(b"\n"):
            with open(path, "ab") as file:
                file.write(b"\n")

    def _read(self, key: str) -> Record | None:
        """A record from its own file, if it and its profile are whole."""
        try:
            found = _checked(self._path("cells", key).read_bytes())
        except OSError:
            return None
        if found is None or found.get("key") != key or not self._has_profile(key, found):
            return None
        self._note(key, found)
        return found

    def _has_profile(self, key: str, record: Record) -> bool:
        if record["profile"] is None:
            return True
        try:
            content = self.profile(key).read_bytes()
        except OSError:
            return False
        return bool(hashlib.sha256(content).hexdigest() == record["profile"]["sha256"])

    def _stamps(self, key: str, record: Record) -> list[list[int]] | None:
        """Size and time of change of a cell's files: as long as they are the same, so is what they say."""
        found = []
        for room in ("cells", "profiles")[: 1 if record["profile"] is None else 2]:
            try:
                stat = os.stat(self._path(room, key))
            except OSError:
                return None
            found.append([stat.st_size, stat.st_mtime_ns])
        return found

    def _path(self, room: str, key: str) -> Path:
        return self.folder / room / key[:2] / f"{key}.json"


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and onto the disk."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(exist_ok=True)
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def _place(key: str) -> int:
    """The byte of the claims' file that stands for a cell."""
    return int(key[:15], 16)


def _signed(value: dict[str, Any]) -> str:
    """A value as a line of JSON that begins with its own digest."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {text}"


def _checked(line: bytes) -> dict[str, Any] | None:
    """The value of such a line; None where it was cut off or changed."""
    digest, _, text = line.strip().partition(b" ")
    if not text or hashlib.sha256(text).hexdigest()[:16].encode() != digest:
        return None
    found = json.loads(text)
    return found if isinstance(found, dict) else None
