"""Whether a run can be resumed: same settings, same data, same network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cotrunk.data.tokens.workers import cores
from cotrunk.errors import UserError, option, plural, spelled
from cotrunk.learn.run import Run
from cotrunk.learn.untrained import DOCUMENT, Untrained, sha256_of, untrained
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.finite import not_finite
from cotrunk.runs.checkpoint import Checkpoint
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.lost import Lost, lost_networks

MAY_DIFFER = (
    "base",
    "parameters",
    "threads",
    "settings.train.threads",
    "settings.train.max_seconds",
    "settings.train.keep_checkpoints",
    "settings.track",
    "environment",
)
"""Entries of run.json that may differ in a resumed run."""
SET = spelled(command="--set", python="override")
OTHER_WEIGHTS = "encoder.weights: the files have changed"


def resumed(run: Run, before: object, *, force: bool) -> tuple[Run, Checkpoint | None]:
    """The run to continue, and the checkpoint to start from; ``before`` is its run.json.

    With ``force`` settings and data may differ, but not the network.
    """
    changes = list(differences(before, run.record))
    start, warnings = run.folder.latest_good()
    if start and changes == [OTHER_WEIGHTS]:
        _refuse_other_source(run.network, start)
    if changes and not force:
        raise UserError(
            f"{run.folder.path}: the run was started with other settings or files ("
            f"{'; '.join(changes)}); give the same config and every {SET} again, or "
            f"{option('force')} to continue with the new ones"
        )
    again: tuple[Path, ...] = ()
    if start and (lost := lost_networks(run.folder, start.documents["state"])):
        start, again, more = _before_loss(run.folder, start, lost, force=force)
        warnings += more
    record: Mapping[str, object] = run.record
    if start:
        run, start = _completed(run, start)
        _refuse_another_network(run.network, start)
        if broken := not_finite(start.tensors("model")):
            raise UserError(f"{start.folder}: {broken}, so it cannot be resumed; start a new run")
        if threads := _threads_of(before):  # keep what the run was started with
            warnings += _other_threads(threads, run)
            record = {**record, "threads": threads}
    continued = replace(
        run,
        record=record,
        save_again=again,
        notes=(*run.notes, *changes),
        warnings=(*run.warnings, *warnings),
    )
    return continued, start


def _completed(run: Run, start: Checkpoint) -> tuple[Run, Checkpoint]:
    """The checkpoint with its frozen parameters read from their source, and the run to continue.

    A parameter that the checkpoint contains may have been trained, so the next one contains it.
    """
    _refuse_other_source(run.network, start)
    now, left_out = run.network.state_dict(), _source_of(start).names
    if gone := sorted(left_out - now.keys()):
        raise _other_network(start, gone[0])
    model = {**start.tensors("model"), **{name: now[name] for name in left_out}}
    still = {name: now[name] for name in run.untrained.names & left_out}
    continued = replace(run, untrained=untrained(run.untrained.source, still))
    return continued, replace(start, loaded={**start.loaded, "model": model})


def _refuse_other_source(network: Network, start: Checkpoint) -> None:
    """The parameters that the checkpoint does not contain must not have changed since."""
    now, source = network.state_dict(), _source_of(start)
    if source.names <= now.keys() and source.names:
        found = sha256_of({name: now[name] for name in source.names})
        if found != source.sha256:
            raise UserError(
                f"{start.folder} does not contain {plural(len(source.names), 'frozen tensor')}; "
                f"they come from {source.source}, which has changed since: restore it, or start a "
                "new run"
            )


def _source_of(start: Checkpoint) -> Untrained:
    match start.documents.get(DOCUMENT):
        case None:
            return Untrained()
        case {"source": str(source), "sha256": str(sha256), "tensors": [*names]}:
            return Untrained(source, frozenset(map(str, names)), sha256)
    raise UserError(f"{start.folder}/{DOCUMENT}.json was not written by `cotrunk train`")


def _before_loss(
    folder: RunFolder, start: Checkpoint, lost: Sequence[Lost], *, force: bool
) -> tuple[Checkpoint, tuple[Path, ...], list[str]]:
    """Where to resume to recreate lost networks, which to save at once, and warnings.

    That is the newest checkpoint not newer than any of them. With ``force`` they may be given up.
    """
    older, _ = folder.latest_good(at_most=min(each.step for each in lost))
    if older:
        from_here = f"recreating it from {older.folder.name}"
        again = tuple(each.place for each in lost if each.step == older.documents["state"]["step"])
        return older, again, [f"{each.why}; {from_here}" for each in lost]
    if not force:
        raise UserError(
            *(
                f"{each.why}; it was saved at step {each.step}, and all checkpoints are newer: "
                f"restore it, or give {option('force')} to keep the best network from here on"
                for each in lost
            )
        )
    state = dict(start.documents["state"])
    gone = [each.task for each in lost]
    state["task_best"] = {t: best for t, best in state["task_best"].items() if t not in gone}
    if None in gone:
        state |= {"best": None, "best_step": -1}
    start = replace(start, documents={**start.documents, "state": state})
    return start, (), [f"{each.why}; keeping the best network from here on" for each in lost]


def differences(before: object, now: object, place: str = "") -> Iterator[str]:
    """One line for each entry of run.json that has changed."""
    if place in MAY_DIFFER:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from differences(before.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    elif before != now and before and now and place.startswith("data."):
        _, split, task = place.split(".")
        yield f"tasks.{task}.{split}: the file has changed"
    elif before != now and before and now and place == "weights":
        yield OTHER_WEIGHTS
    elif before != now:
        was, is_now = ("not set" if x is None else repr(x) for x in (before, now))
        yield f"{place.removeprefix('settings.')}: was {was}, is now {is_now}"


def _refuse_another_network(network: Network, start: Checkpoint) -> None:
    """Not even ``force`` can continue with another network."""
    now, before = (
        {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for tensors in (network.state_dict(), start.tensors("model"))
    )
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if different:
        raise _other_network(start, different[0])


def _other_network(start: Checkpoint, parameter: str) -> UserError:
    return UserError(
        f"{start.folder} has a different network ({parameter} differs), which "
        f"{option('force')} does not allow; start a new run from this one with train.init_from"
    )


def _threads_of(record: object) -> int | None:
    """The threads a run was started with; old run folders have it only if it was set."""
    match record:
        case {"threads": int(count)} | {"settings": {"train": {"threads": int(count)}}}:
            return count
    return None


def _other_threads(before: int, run: Run) -> list[str]:
    now = run.record["threads"]
    if now == before or next(run.network.parameters()).device.type != "cpu":
        return []
    advice = f"; train.threads = {before} avoids that" if before <= cores() else ""
    return [
        f"the run was trained with {plural(before, 'thread')}, now with {now}: the last digits of "
        f"its results may differ from those of an uninterrupted run{advice}"
    ]
