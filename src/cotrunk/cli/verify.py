"""``cotrunk verify``: checks that every file of a run matches its recorded hash."""

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from cotrunk.cli.terminal.output import Document, Failed, out
from cotrunk.errors import plural
from cotrunk.runs import seal
from cotrunk.runs.verify import verify as verify_run


def verify(arguments: Namespace) -> Document:
    found = verify_run(Path(arguments.folder))
    if not arguments.json:
        for each in found.damaged:
            out().print(f"{each.file}: {each.why}")
        if any(each.file == seal.NAME for each in found.damaged):
            covered = ", ".join(
                name
                for name in (*seal.DOCUMENTS, *seal.GROWING)
                if (Path(arguments.folder) / name).exists()
            )
            out().print(f"hashes not compared, because only {seal.NAME} has them: {covered}")
        files, damaged = plural(found.files, "file"), len(found.damaged)
        out().print(f"{files}: {f'{damaged:,} damaged' if damaged else 'all as recorded'}")
    document = asdict(found)
    return Failed(document) if found.damaged else document
