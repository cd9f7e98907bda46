"""``python -m tools.results [collect | zero-shot]``: see the package's docstring."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cotrunk.errors import UserError
from cotrunk.files import write_whole
from tools.results.documents import ZERO_SHOT, read_document, read_results

ROOT = Path(__file__).parents[2]


def main(arguments: list[str] | None = None, *, root: Path = ROOT) -> int:
    given = _parser().parse_args(arguments)
    try:
        if given.command == "collect":
            _collect(given, root)
        elif given.command == "zero-shot":
            _zero_shot(given, root)
        else:
            _write_page(root)
    except UserError as error:
        for line in error.lines:
            print(f"error: {line}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.results")
    commands = parser.add_subparsers(dest="command")
    collect = commands.add_parser("collect", help="conclude studies into results/NAME.json")
    collect.add_argument("folder", type=Path, nargs="+", help="a folder of `cotrunk study`")
    collect.add_argument("--tries", type=int, help="recipes tried on dev before the headline's")
    collect.add_argument(
        "--chosen-at", type=float, help="official dev score of the headline's recipe when chosen"
    )
    zero_shot = commands.add_parser("zero-shot", help="measure MiniLM before any training")
    zero_shot.add_argument("--data", type=Path, required=True, help="the course's files")
    return parser


def _collect(given: argparse.Namespace, root: Path) -> None:
    from tools.results.collect import collect, study_of
    from tools.results.headline import NAME, headline_of

    names = [study_of(folder) for folder in given.folder]
    if NAME in names and given.tries is None:
        raise UserError("collect: give --tries N for the headline: how many recipes were tried")
    for folder, name in zip(given.folder, names, strict=True):
        kept, document = collect(folder, read_document(root / "results" / "runs", name))
        if name == NAME:
            document = headline_of(document, tries=given.tries, chosen_at=given.chosen_at)
        _write(root / "results" / "runs", name, kept)
        _write(root / "results", name, document)


def _zero_shot(given: argparse.Namespace, root: Path) -> None:
    from cotrunk.study.plan import refuse_missing_data
    from tools.results.zero_shot import zero_shot

    refuse_missing_data(given.data)
    _write(root / "results", ZERO_SHOT, zero_shot(given.data))


def _write(folder: Path, name: str, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    folder.mkdir(exist_ok=True)
    write_whole(folder / f"{name}.json", text.encode())


def _write_page(root: Path) -> None:
    from tools.results.page import page
    from tools.results.pictures import pictures
    from tools.results.texts import read_texts

    results, texts = read_results(root / "results"), read_texts()
    drawn = pictures(results, texts)
    text = page(results, texts, drawn)
    folder = root / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / f"results-{name}.svg": svg for name, svg in drawn.items()}
    for file, svg in files.items():
        write_whole(file, svg.encode())
    write_whole(root / "docs" / "results.md", text.encode())
    for old in set(folder.glob("results-*.svg")) - set(files):
        old.unlink()


if __name__ == "__main__":
    sys.exit(main())
