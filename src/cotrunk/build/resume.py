"""Whether a run may go on: the same settings, the same data, the same network."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cotrunk.data.tokens.workers import cores
from cotrunk.errors import UserError, plural
from cotrunk.learn.run import Run
from cotrunk.model.sharing.network import Network
from cotrunk.runs.checkpoint import Checkpoint
from cotrunk.runs.folder import RunFolder

MAY_DIFFER = ("base", "threads", "settings.train.threads", "environment")
"""Places of run.json where a resumed run may differ from how it began."""


def refuse_foreign(folder: RunFolder) -> None:
    found = folder.read_document("run")
    if not (isinstance(found, dict) and "settings" in found):
        raise UserError(
            f"{folder.settings} was not written by `cotrunk train`; give another folder"
        )


def resumed(run: Run, before: object, *, force: bool) -> tuple[Run, Checkpoint | None]:
    """The run as it goes on, with its notes and warnings, and where; ``before`` is its run.json.

    ``force`` lets settings and data differ, but not the network.
    """
    changes = list(differences(before, run.record))
    if changes and not force:
        raise UserError(
            "these settings differ from the run's own: give the same config and every --set "
            "again, or --force to go on with the new ones:",
            *changes,
        )
    start, warnings = run.folder.latest_good()
    record: Mapping[str, object] = run.record
    if start:
        _refuse_another_network(run.network, start)
        if threads := _threads_of(before):  # as it began, however it goes on
            warnings += _other_threads(threads, run)
            record = {**record, "threads": threads}
    going_on = replace(
        run,
        record=record,
        notes=(*run.notes, *changes),
        warnings=(*run.warnings, *warnings),
    )
    return going_on, start


def differences(before: object, now: object, place: str = "") -> Iterator[str]:
    """One line for each place of run.json that is not as it was."""
    if place in MAY_DIFFER:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from differences(before.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    elif before != now and before and now and place.startswith("data."):
        _, split, task = place.split(".")
        yield f"tasks.{task}.{split}: the contents of its file have changed"
    elif before != now:
        was, is_now = ("not set" if x is None else repr(x) for x in (before, now))
        yield f"{place.removeprefix('settings.')}: was {was}, is now {is_now}"


def _refuse_another_network(network: Network, start: Checkpoint) -> None:
    """What ``force`` cannot do."""
    now, before = (
        {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for tensors in (network.state_dict(), start.tensors("model"))
    )
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if different:
        raise UserError(
            f"{start.folder} is of another network ({different[0]} differs), which --force cannot "
            "change; start another run, with train.init_from to begin from this one"
        )


def _threads_of(record: object) -> int | None:
    """How many a run was started with; older folders say it only if they were told how many."""
    match record:
        case {"threads": int(count)} | {"settings": {"train": {"threads": int(count)}}}:
            return count
    return None


def _other_threads(before: int, run: Run) -> list[str]:
    now = run.record["threads"]
    if now == before or next(run.network.parameters()).device.type != "cpu":
        return []
    advice = f"; --set train.threads={before} avoids that" if before <= cores() else ""
    return [
        f"the run was trained with {plural(before, 'thread')}, now with {now}: the last digits of "
        f"its results may differ from those of an uninterrupted run{advice}"
    ]
