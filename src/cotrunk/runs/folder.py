"""A run folder: training writes it, all other commands read it.

::

    run.json                    settings, data digests, environment
    seal.json                   sizes and SHA-256 of the other files, for `cotrunk verify`
    findings.json               findings of the guards before training
    metrics.jsonl               one line per event; deterministic, so without times
    timing.jsonl                costs (see cost.py) and findings during training
    checkpoints/step-00000200   to resume from
    best                        the best network, its evaluation.json, and dev.safetensors: its
                                outputs for the dev rows, their labels, and hashes of their texts
    final                       the network at the end
"""

import hashlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from cotrunk.errors import UserError, option, spelled
from cotrunk.files import read_regular, sync, write_whole
from cotrunk.runs.checkpoint import (
    MAX_DOCUMENT_BYTES,
    Checkpoint,
    CheckpointDamaged,
    CheckpointError,
    Json,
    Tensors,
    delete_checkpoint,
    looks_whole,
    read_checkpoint,
    to_json,
    write_checkpoint,
)
from cotrunk.runs.finding import Finding
from cotrunk.runs.lock import holder_of, locked
from cotrunk.runs.logs import append_line, read_lines, unreadable, whole_lines
from cotrunk.runs.seal import (
    MAX_LOG_BYTES,
    Entry,
    Seal,
    entry_of,
    has_changed,
    loosen_seal,
    seal_run,
    write_seal,
)
from cotrunk.runs.structure import CheckpointState, RunDocument, misfit

RECENT = 60.0
"""A run on another machine is running if it wrote something within this many seconds."""
TRAINING = spelled(command="`cotrunk train`", python="`cotrunk.train`")


class RunFolder:
    """The files of a run, and all writing to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "run.json"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.final = path / "final"

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new run; existing files are never overwritten."""
        cls.refuse_taken(path)
        run = cls(path)
        try:
            run.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot create the run folder: {error.strerror}") from error
        with run.lock():  # fails if another process is creating one there
            run.create_logs()
            write_seal(path, Seal())  # before run.json: a kill must not look like a deleted seal
            return run

    @classmethod
    def refuse_taken(cls, path: Path) -> None:
        """Check that a run can be created at ``path``, before any work is done."""
        there = next(place for place in (path, *path.parents) if place.exists())
        if not there.is_dir():
            raise UserError(
                f"{path}: cannot create the run folder: {there} is a file; give another folder"
            )
        if not os.access(there, os.W_OK):
            raise UserError(
                f"{path}: cannot create the run folder: no permission to write to {there}"
            )
        if outer := next((place for place in path.resolve().parents if cls(place).is_one), None):
            raise UserError(f"{path} is inside the run {outer}; give a folder outside it")
        run = cls(path)
        if run.settings.exists():
            with run.lock():  # a run in progress gets its own error
                raise UserError(
                    f"{path} already has a run; continue it with {option('resume')}, "
                    "or give another folder"
                )
        if others := run._existing_files():
            raise UserError(
                f"{path} has no run.json, but a run would overwrite {others[0]}; "
                "give another folder"
            )

    def _existing_files(self) -> list[Path]:
        """Existing files that a run would write."""
        findings = self._document("findings")
        written = [self.metrics, self.timing, findings, self.best, self.final]
        written += self.path.glob("best-*")
        saved = self.checkpoints.iterdir() if self.checkpoints.is_dir() else ()
        # A run that was killed before it wrote run.json leaves empty logs.
        return [*(place for place in written if place.is_dir() or _size(place)), *saved]

    @classmethod
    def open(cls, path: Path) -> Self:
        run = cls(path)
        if not path.exists():
            raise UserError(
                f"{path} is not a run: there is no such folder; give one written by {TRAINING}"
            )
        if not run.settings.is_file():
            found = "its run.json is not a file" if run.settings.exists() else "it has no run.json"
            raise UserError(f"{path} is not a run: {found}; give a folder written by {TRAINING}")
        return run

    @property
    def is_one(self) -> bool:
        return self.settings.is_file() and (self.checkpoints.is_dir() or self.metrics.is_file())

    @property
    def is_finished(self) -> bool:
        """Its training has finished; ``final.old`` counts while it is being replaced."""
        return self.final.is_dir() or self.final.with_name("final.old").is_dir()

    @property
    def is_running(self) -> bool:
        """A process on this machine is writing, or one on another machine wrote a minute ago."""
        try:
            holder = holder_of(self.path)
            written = self.timing.stat().st_mtime if self.timing.exists() else 0.0
        except OSError:
            return False
        match = re.fullmatch(r"process (\d+) on (.*)", holder)
        if not match:
            return False
        if match[2] != socket.gethostname():
            return time.time() - written < RECENT
        return is_alive(int(match[1]))

    def best_of(self, task: str) -> Path:
        return self.path / f"best-{task}"

    def step(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only one process may write; the kernel releases the lock even if the holder crashes."""
        self._refuse_special_files()
        with locked(self.path):
            yield

    def _refuse_special_files(self) -> None:
        """A pipe or a device in place of a file would be waited for, or written to."""
        files = [self.settings, self.metrics, self.timing]
        files += [self.path / "seal.json", self._document("findings")]
        wrong = {
            path: f"file of at most {MAX_LOG_BYTES:,} bytes" for path in files if _is_odd(path)
        }
        folders = [self.checkpoints, self.best, self.final]
        wrong |= {path: "folder" for path in folders if path.exists() and not path.is_dir()}
        for path, needed in wrong.items():
            raise UserError(f"{path}: must be a {needed}; delete it, or restore it from a backup")

    def write_document(self, name: str, document: object) -> None:
        """Write ``name``.json atomically."""
        write_whole(self._document(name), to_json(document))
        sync(self.path)

    def read_document(self, name: str) -> Json:
        file = self._document(name)
        try:
            return json.loads(read_regular(file, MAX_DOCUMENT_BYTES))
        except FileNotFoundError:
            raise UserError(f"{self.path} has no {file.name}") from None
        except OSError as error:
            raise unreadable(file, error) from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file} is not JSON: {error}; restore it from a backup") from error

    def read_record(self) -> dict[str, Any]:
        """run.json, which has at least the settings of the run."""
        record = self.read_document("run")
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise UserError(
                f"{self.settings} was not written by `cotrunk train`: it has no settings; "
                "give another folder"
            )
        if wrong := misfit(RunDocument, record):
            raise UserError(
                f"{self.settings} was not written by `cotrunk train`: {wrong}; "
                "restore it from a backup"
            )
        return record

    def _document(self, name: str) -> Path:
        if not re.fullmatch(r"[a-z0-9_-]+", name):
            raise ValueError(f"document {name!r}: must be a name like 'run', without .json")
        return self.path / f"{name}.json"

    def append_metrics(self, record: Mapping[str, object]) -> None:
        """Add a line; NaN and infinities become null."""
        append_line(self.metrics, record)

    def append_timing(self, record: Mapping[str, object]) -> None:
        self.timing.touch()  # unlike metrics, it is not needed to resume
        append_line(self.timing, record)

    def append_findings(self, step: int, findings: Sequence[Finding]) -> None:
        """Goes to timing.jsonl, because findings may differ after a resume."""
        for finding in findings:
            self.append_timing({"event": "guard", "step": step, **asdict(finding)})

    def read_metrics(self) -> list[dict[str, Any]]:
        """All complete lines; a last line that is still being written is ignored."""
        return read_lines(self.metrics)

    def read_timing(self) -> list[dict[str, Any]]:
        return read_lines(self.timing)

    def metrics_entry(self) -> Entry:
        """Stored in checkpoints, so that a resumed run continues the metrics there."""
        if has_changed(self.metrics):
            raise CheckpointError(
                f"{self.metrics} was changed by another program: it no longer begins with what "
                "the last checkpoint recorded; restore the file and resume the run"
            )
        return entry_of(self.metrics)

    def begin(
        self,
        record: Mapping[str, object],
        findings: Sequence[Finding],
        *,
        metrics_bytes: int = 0,
        metrics_sha256: str | None = None,
    ) -> None:
        """Make the folder ready for training, with the metrics as at the checkpoint."""
        self._refuse_changed_metrics(metrics_bytes, metrics_sha256)
        self.checkpoints.mkdir(exist_ok=True)
        self.create_logs()
        # A kill at any moment must leave a valid seal, so it covers less before files change.
        loosen_seal(self.path, {self.metrics.name: entry_of(self.metrics, metrics_bytes)})
        self.truncate_metrics(metrics_bytes)
        self.write_document("run", record)
        self.write_document("findings", [asdict(finding) for finding in findings])
        seal_run(self.path)

    def create_logs(self) -> None:
        """Create the log files: appending does not."""
        for log in (self.metrics, self.timing):
            log.touch()

    def _refuse_changed_metrics(self, length: int, sha256: str | None) -> None:
        """Metrics must begin with what the checkpoint to resume from recorded of them."""
        lines = whole_lines(self.metrics)
        if length > len(lines):
            raise UserError(
                f"{self.metrics} is shorter than at the checkpoint ({len(lines)} bytes of complete "
                f"lines, not {length}); restore the file, or start a new run"
            )
        if sha256 is not None and hashlib.sha256(lines[:length]).hexdigest() != sha256:
            raise UserError(
                f"{self.metrics} is not what the checkpoint recorded: its first {length} bytes "
                "have changed; restore the file, or start a new run"
            )

    def truncate_metrics(self, length: int) -> None:
        """Remove what was written after the checkpoint to resume from."""
        self._refuse_changed_metrics(length, None)
        if self.metrics.exists():
            lines = whole_lines(self.metrics)
            os.truncate(self.metrics, lines.rfind(b"\n", 0, length) + 1)

    def save_step(
        self, step: int, tensors: Tensors, documents: Mapping[str, object], keep: int = 2
    ) -> Path:
        """Write the checkpoint of a step, then delete all but the newest ``keep``."""
        if keep < 1:
            raise ValueError(
                f"keep = {keep} must be 1 or more: a run needs a checkpoint to resume from"
            )
        for log in (self.metrics, self.timing):
            if log.exists():
                sync(log)  # the checkpoint stores its length
        write_checkpoint(self.step(step), tensors=tensors, documents=documents)
        # Later steps are leftovers: they were damaged, so the run resumed from an earlier one.
        whole = [s for s in self._steps() if s <= step and looks_whole(self.step(s))]
        gone = [self.step(other) for other in set(self._steps()) - set(whole[:keep])]
        seal_run(self.path, without=[f"{self.checkpoints.name}/{old.name}" for old in gone])
        for other in gone:
            delete_checkpoint(other)
        for leftover in self.checkpoints.glob("step-*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)
        return self.step(step)

    def latest_good(self, at_most: int | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest undamaged checkpoint, and a warning for each damaged newer one."""
        damages: list[CheckpointError] = []
        for step in self._steps():
            if at_most is not None and step > at_most:
                continue
            try:
                good = _read_step(self.step(step), step)
            except CheckpointError as damage:
                damages.append(damage)
            else:
                return good, [f"{damage}; using {good.folder.name}" for damage in damages]
        return None, [f"{damage}; there is no older checkpoint" for damage in damages]

    def _steps(self) -> list[int]:
        """Newest first. ``.old`` counts: it is all that is left if a replacement was killed."""
        names = [re.fullmatch(r"step-(\d{8,})(\.old)?", p.name) for p in self.checkpoints.glob("*")]
        return sorted({int(match[1]) for match in names if match}, reverse=True)


def unfinished(folder: Path, which: str) -> str:
    """A note if training may still replace the network ``which`` of a run, else ""."""
    run = RunFolder(folder)
    if not (run.path / which).is_dir() or run.is_finished:
        return ""
    return f"the training of {folder} has not finished, so its {which}/ may still change"


def is_alive(process: int) -> bool:
    """Whether a process of this machine exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's, or not a number of a process
        return True
    return True


def _is_odd(path: Path) -> bool:
    return path.exists() and (not path.is_file() or path.stat().st_size > MAX_LOG_BYTES)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_step(place: Path, step: int) -> Checkpoint:
    """A checkpoint to resume from: its state must be as training writes it."""
    checkpoint = read_checkpoint(place)
    state: Json = checkpoint.documents.get("state")
    wrong = misfit(CheckpointState, state)
    if not wrong and state["step"] != step:
        wrong = f"step: must be that of the folder; found {state['step']}"
    if wrong:
        raise CheckpointDamaged(place / "state.json", "what training writes", f"an error: {wrong}")
    return checkpoint
