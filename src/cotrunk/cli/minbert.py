"""``cotrunk predict --format minbert``: where the course's files go."""

import io
import zipfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from cotrunk.cli.outputs import refuse_bad_target, refuse_inside_run
from cotrunk.errors import UserError
from cotrunk.files import write_whole
from cotrunk.infer.minbert import (
    FOLDER,
    Sources,
    course_file,
    course_name,
    refuse_to_replace,
    refuse_without_role,
)
from cotrunk.infer.predictor import Answered
from cotrunk.kinds.task import Task

ZIP = ".zip"
SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a submission, so that equal predictions give equal bytes."""


def course_targets(
    arguments: Namespace, tasks: Sequence[Task], sources: Sources
) -> dict[str, Path]:
    """The file of each task: in a folder, in a zip or, for one task, the file itself."""
    refuse_without_role(tasks)
    output, runs = Path(arguments.output or "."), [Path(arguments.folder)]
    names = {task.name: course_name(task.name, arguments.file, sources) for task in tasks}
    if output.suffix == ZIP:
        refuse_bad_target(output, runs)
        return {name: output / FOLDER / file for name, file in names.items()}
    if len(tasks) == 1 and arguments.output and output.suffix:
        refuse_bad_target(output, runs)
        return {tasks[0].name: output}
    if output.exists() and not output.is_dir():
        raise UserError(
            f"-o {output}: is a file; --format minbert writes a file per task, so give a folder"
        )
    refuse_inside_run(output, runs)
    if not output.exists():
        refuse_bad_target(output, runs)
    return {name: output / file for name, file in names.items()}


def write_course_files(
    tasks: Sequence[Task], rows: Sequence[Answered], targets: Mapping[str, Path]
) -> None:
    """All files, or none if one of them would replace other predictions."""
    texts = {targets[task.name]: course_file(task, rows) for task in tasks}
    if len(texts) < len(tasks):
        raise UserError(f"{', '.join(task.name for task in tasks)}: would write the same file")
    packed = next(iter(texts)).parent.parent
    if packed.suffix == ZIP:
        _add_to_zip(packed, {f"{FOLDER}/{path.name}": text for path, text in texts.items()})
        return
    for path, text in texts.items():
        if path.is_file():
            old = path.read_text(encoding="utf-8", errors="replace")
            refuse_to_replace(old, text, place=f"-o {path}")
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text.encode())


def _add_to_zip(path: Path, texts: Mapping[str, str]) -> None:
    """Files of earlier calls stay: a submission has those of all tasks and splits."""
    files = _packed(path) if path.exists() else {}
    for name, text in texts.items():
        if name in files:
            old = files[name].decode("utf-8", errors="replace")
            refuse_to_replace(old, text, place=f"-o {path}: {name}")
        files[name] = text.encode()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in sorted(files.items()):
            made.writestr(zipfile.ZipInfo(name, SAME_TIME), content, zipfile.ZIP_DEFLATED)
    write_whole(path, data.getvalue())


def _packed(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"-o {path}: is not a zip file: {error}; choose another") from None
