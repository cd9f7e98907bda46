"""Run folders as plain values: what a comparison, a report or a sweep reads. Without torch."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cotrunk.build.saved import encoder_plan, saved_kinds
from cotrunk.errors import Errors, UserError, why_unreadable
from cotrunk.kinds import KINDS, Kind
from cotrunk.runs.checkpoint import CheckpointError, place_of, read_arrays, read_documents
from cotrunk.runs.cost import Cost, read_cost
from cotrunk.runs.dotted import flattened
from cotrunk.runs.evaluation import Evaluation, read_evaluation
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.seal import has_changed, last_seal
from cotrunk.runs.sizes import sizes

Kinds = Mapping[str, type[Kind]]
OVERALL = ("official", "mean")
SEED, TASKS = "train.seed", "tasks"
WITHOUT_EFFECT = (
    "train.threads",
    "train.checkpoint",
    "train.keep_checkpoints",
    "track.to",
    "track.folder",
)
"""Settings that do not change what is learned, so runs that differ in them are one plan."""


@dataclass(frozen=True, eq=False)
class TaskRecord:
    """A task of a run on its dev rows: the outputs of the best network, and the labels."""

    name: str
    labels: Kind
    output: np.ndarray
    """[N, O]: one row of outputs per dev row or, for tasks about words, per word."""
    target: np.ndarray
    """Flat, as in the corpus."""
    counts: np.ndarray | None
    """Words per row; None: one unit per row."""
    rows: np.ndarray
    """A hash of each row's texts."""
    dev: str
    """Digest of the dev rows: if equal, they are the same rows in the same order."""
    file: str
    """The dev file as the config names it; of a share, the training file."""
    score: Mapping[str, Any]
    """As in evaluation.json: metric, score, low, high, rows, unit, more, per_class."""


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run folder. ``tasks`` and ``overall`` are those of its best network; empty if it has none.

    ``settings`` name the plan of the encoder even if the config left it to the default.
    ``parameters`` are those of the network while it is trained. ``bytes``: the size on disk of the
    best weights, and of the newest checkpoint with the optimizer; None if there is none.
    """

    path: Path
    settings: Mapping[str, Any]
    seed: int
    state: Literal["finished", "stopped", "running"]
    tasks: Mapping[str, TaskRecord]
    overall: Mapping[str, float | None]
    parameters: int
    trained_parameters: int
    bytes: Mapping[str, int | None]
    cost: Cost
    steps: int
    best_step: int | None
    history: Sequence[Mapping[str, Any]]
    digests: Mapping[str, str]
    """Digests of the contents of files, by the setting that names them."""
    planned_steps: int | None = None
    """How many steps the trial of a sweep was to make; None for other runs."""

    @property
    def unfinished(self) -> str:
        """``stopped at step 30 of 120``; "" for a run that has finished."""
        if self.state == "finished":
            return ""
        of = f" of {self.planned_steps:,}" if self.planned_steps else ""
        return f"{self.state} at step {self.steps:,}{of}"


@dataclass(frozen=True)
class Broken:
    """A run folder that cannot be read."""

    path: Path
    why: str


@dataclass(frozen=True, eq=False)
class RunGroup:
    """Runs that differ in their seed only; ``choices`` are the settings that groups differ in.

    ``repeats`` have the seed of one of the ``runs``: they add no evidence.
    """

    choices: Mapping[str, Any]
    runs: tuple[RunRecord, ...]
    repeats: tuple[RunRecord, ...] = ()

    @property
    def counted_once(self) -> list[Broken]:
        """The repeats, with the run that counts in their place."""
        first = {run.seed: run.path for run in self.runs}
        return [
            Broken(run.path, f"same settings and seed as {first[run.seed]}: counted once")
            for run in self.repeats
        ]


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """A folder with run.json is a run; in any other folder the runs at any depth are found.

    A folder with checkpoints is a run too: without run.json a broken one. A run with several
    names is found once, under the first. Links are followed to runs only, never in circles.
    """
    found: dict[Path, Path] = {}
    errors = Errors()
    for path in paths:
        with errors.gathered():
            try:
                inside = list(_runs_inside(path)) if path.is_dir() else []
            except OSError as error:
                why = f"{error.filename or path}: {error.strerror}"
                raise UserError(f"{why}; give the runs one by one, or make it readable") from None
            if not inside:
                what = "has no runs in it" if path.is_dir() else "there is no such folder"
                raise UserError(f"{path}: {what}; give a folder written by `cotrunk train`")
            for run in inside:
                found.setdefault(run.resolve(), run)
    errors.refuse()
    return list(found.values())


def _runs_inside(folder: Path) -> Iterator[Path]:
    if _is_run(folder):
        yield folder
        return
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and (not inner.is_symlink() or _is_run(inner)):
            yield from _runs_inside(inner)


def _is_run(folder: Path) -> bool:
    return (folder / "run.json").is_file() or (folder / "checkpoints").is_dir()


def without_scores(records: Sequence[RunRecord]) -> list[Broken]:
    """The runs that were read but cannot be compared, because they were not evaluated."""
    return [Broken(record.path, _no_scores(record)) for record in records if not record.tasks]


def _no_scores(record: RunRecord) -> str:
    why = "has no dev scores"
    return f"{why} yet: it is running" if record.state == "running" else f"{why}: never evaluated"


def read_runs(
    paths: Sequence[Path], *, kinds: Kinds = KINDS
) -> tuple[list[RunRecord], list[Broken]]:
    """All runs that can be read, and why the others cannot."""
    records, broken = [], []
    for path in paths:
        try:
            records.append(read_run(path, kinds=kinds))
        except UserError as error:
            broken.append(Broken(path, "; ".join(error.lines)))
    return records, broken


def read_run(path: Path, *, kinds: Kinds = KINDS) -> RunRecord:
    """``UserError`` in one line if the folder is not a run, or is damaged."""
    run = RunFolder.open(path)
    try:
        return _read(run, kinds)
    except CheckpointError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: not a run of this version of cotrunk: {why_unreadable(error)}"
        ) from None


def _read(run: RunFolder, kinds: Kinds) -> RunRecord:
    record = run.read_record()
    if "parameters" not in record:
        raise UserError(f"{run.path}: was trained by an older version of cotrunk; train it again")
    history, best = run.read_metrics(), read_evaluation(run.best)
    _refuse_damaged(run)
    overall = best.overall if best else {}
    sharing = {**record["settings"]["sharing"], "encoder": encoder_plan(run, record)}
    return RunRecord(
        path=run.path,
        settings={**record["settings"], "sharing": sharing},
        seed=record["settings"]["train"]["seed"],
        state="finished" if run.is_finished else "running" if run.is_running else "stopped",
        tasks=_tasks(run, best, record["settings"], kinds) if best else {},
        overall={key: overall.get(key) for key in OVERALL},
        parameters=record["parameters"]["total"],
        trained_parameters=record["parameters"]["trained"],
        bytes=sizes(run),
        cost=read_cost(run),
        steps=sum(entry.get("event") == "step" for entry in history),
        best_step=best.step if best else None,
        history=history,
        digests=_digests(record),
        planned_steps=_planned_steps(run),
    )


def _planned_steps(run: RunFolder) -> int | None:
    try:
        trial = run.read_document("trial")
    except UserError:
        return None
    steps = trial.get("steps") if isinstance(trial, dict) else None
    return steps if isinstance(steps, int) else None


def _refuse_damaged(run: RunFolder) -> None:
    """What ``best`` does not verify itself: a cut log or a missing ``best`` would look empty."""
    more = f"`cotrunk verify {run.path}` lists all damage"
    if has_changed(run.metrics):
        raise UserError(f"{run.metrics}: was changed after training wrote it; {more}")
    if run.best.name in last_seal(run.path).folders and not place_of(run.best).is_dir():
        raise UserError(f"{run.best}: no such folder, but training wrote it; {more}")


def _tasks(
    run: RunFolder, best: Evaluation, settings: Mapping[str, Any], kinds: Kinds
) -> dict[str, TaskRecord]:
    saved = read_documents(run.best)["settings"]
    labels = saved_kinds(saved, place=f"{run.best}/settings.json", kinds=kinds)
    arrays = read_arrays(run.best, "dev")
    found = {}
    for name, score in best.scores.items():
        if f"{name}.rows" not in arrays:
            why = "was trained by an older version of cotrunk; train it again"
            raise UserError(f"{run.best}/dev.safetensors has no {name}.rows: it {why}")
        target, counts = arrays[f"{name}.target"], arrays.get(f"{name}.counts")
        rows = arrays[f"{name}.rows"]
        found[name] = TaskRecord(
            name=name,
            labels=labels[name],
            output=arrays[f"{name}.output"],
            target=target,
            counts=counts,
            rows=rows,
            dev=_digest([rows, target, *([] if counts is None else [counts])]),
            file=_dev_file(settings["tasks"][name]),
            score=score,
        )
    return found


def _dev_file(task: Mapping[str, Any]) -> str:
    """The file of the dev rows, also if they are a share of the training rows."""
    dev, train = task.get("dev"), task.get("train")
    if isinstance(dev, str):
        return dev
    return f"a share of {', '.join(train) if isinstance(train, list) else train}"


def _digest(arrays: Iterable[np.ndarray]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(str((array.dtype, array.shape)).encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def _digests(record: Mapping[str, Any]) -> dict[str, str]:
    found = {
        f"tasks.{task}.{split}": digest
        for split, of_tasks in record["data"].items()
        for task, digest in of_tasks.items()
    }
    return found | ({"encoder.weights": record["weights"]} if record["weights"] else {})


def group_runs(records: Sequence[RunRecord]) -> list[RunGroup]:
    """Runs of the same settings and data in one group, in the order in which they first occur.

    A file counts by its contents, not by its path. Of runs with the same seed only one counts, a
    finished one if there is one: two copies of a run are not two seeds.
    """
    alike: dict[str, list[RunRecord]] = {}
    for record in records:
        alike.setdefault(_text(identity_of(record)), []).append(record)
    different = _different([json.loads(key) for key in alike])
    groups = []
    for runs in alike.values():
        plan = _plan(runs[0])
        choices = {key: plan[key] for key in different if key in plan}
        if TASKS in different:
            choices = {TASKS: " + ".join(runs[0].settings["tasks"]), **choices}
        counted = _one_per_seed(runs)
        repeats = [run for run in runs if run not in counted]
        groups.append(RunGroup(choices, tuple(counted), tuple(repeats)))
    return groups


def _different(identities: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys that plans differ in. ``TASKS`` stands for tasks that only some of them have, whose
    own settings are compared among the plans that have them.
    """
    tables = [dict.fromkeys(map(_table, identity)) for identity in identities]
    keys = dict.fromkeys(key for identity in identities for key in identity)

    def differs(key: str) -> bool:
        having = [i for i, found in zip(identities, tables, strict=True) if _table(key) in found]
        concerned = having if key.startswith("tasks.") else identities
        return len({_text(identity.get(key)) for identity in concerned}) > 1

    tasks = {tuple(sorted(t for t in found if t.startswith("tasks."))) for found in tables}
    return [*([TASKS] if len(tasks) > 1 else []), *filter(differs, keys)]


def _table(key: str) -> str:
    """``tasks.sst`` of ``tasks.sst.head.dropout``."""
    return ".".join(key.split(".")[:2])


def _one_per_seed(runs: Sequence[RunRecord]) -> list[RunRecord]:
    found: dict[int, RunRecord] = {}
    for run in runs:
        known = found.get(run.seed)
        if known is None or (known.state != "finished" and run.state == "finished"):
            found[run.seed] = run
    return list(found.values())


def identity_of(record: RunRecord) -> dict[str, Any]:
    """What makes runs seeds of one plan: their settings by dotted key, files by their contents."""
    return {key: record.digests.get(key, value) for key, value in _plan(record).items()}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _plan(record: RunRecord) -> dict[str, Any]:
    """The settings of a run by dotted key, without its seed and what has no effect."""
    tests = {f"tasks.{task}.test" for task in record.settings["tasks"]}
    left_out = {SEED, *WITHOUT_EFFECT, *tests}
    flat = flattened(record.settings)
    return {key: value for key, value in flat.items() if key not in left_out}
