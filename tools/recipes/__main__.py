"""``python -m tools.recipes search | rank | confirm | report``: see the package's docstring."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.recipes.judge import Judged, Scores, best_of, judge, ranking, scores_of
from tools.recipes.recipes import FRESH_SEEDS, RECIPES, SEARCH_SEED
from tools.recipes.sets import SETS, make_set
from tools.recipes.sweeps import sweep


def main() -> None:
    given = _arguments()
    folders = {name: given.out / name for name in given.sets}
    if given.command == "search":
        for name, folder in folders.items():
            config = make_set(name, given.data, folder)
            sweep(config, RECIPES, [SEARCH_SEED], folder / "search")
        return
    searched = {name: scores_of(folder / "search") for name, folder in folders.items()}
    if given.command == "rank":
        _show_ranking(searched)
    elif given.command == "confirm":
        for name, folder in folders.items():
            recipes = dict.fromkeys((given.recipe, best_of(searched[name])))
            sweep(folder / "run.toml", recipes, FRESH_SEEDS, folder / "fresh")
    else:
        judged = {name: judge(folder, given.recipe) for name, folder in folders.items()}
        _show_table(judged)
        if given.output:
            document = _document(given.recipe, searched, judged)
            given.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.recipes")
    commands = parser.add_subparsers(dest="command", required=True)
    search = commands.add_parser("search", help="train all recipes on all sets, with one seed")
    search.add_argument("data", type=Path, help="a folder with cs224n and wnut17")
    rank = commands.add_parser("rank", help="recipes by their mean regret over the sets")
    confirm = commands.add_parser("confirm", help="a recipe and the best ones, with fresh seeds")
    report = commands.add_parser("report", help="the recipe against the best ones")
    for command in (search, rank, confirm, report):
        command.add_argument("out", type=Path, help="where runs are kept")
        command.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    for command in (confirm, report):
        command.add_argument("recipe", choices=RECIPES)
    report.add_argument("-o", "--output", type=Path, help="also write the scores as JSON")
    return parser.parse_args()


def _show_ranking(searched: Mapping[str, Scores]) -> None:
    _show(["recipe", *searched, "mean rank", "mean regret", "largest"])
    for recipe, numbers in ranking(list(searched.values())).items():
        scores = [scores[recipe] for scores in searched.values()]
        _show([recipe, *(f"{number:.3f}" for number in (*scores, *numbers))])


def _show_table(judged: Mapping[str, Judged]) -> None:
    _show(["set", "default", "best recipe", "its score", "lead", "p", "the default"])
    _show(["---"] * 7)
    for name, one in judged.items():
        lead = ["-", "-"]
        if one.lead:
            lead = [f"{one.lead.difference:+.3f} [{one.lead.low:+.3f}, {one.lead.high:+.3f}]"]
            lead += [f"{one.p:.3f}"]
        means = [f"{one.default:.3f}", one.best_recipe, f"{one.best:.3f}"]
        _show([name, *means, *lead, one.verdict])


def _show(cells: Sequence[str]) -> None:
    print(f"| {' | '.join(cells)} |")  # noqa: T201


def _document(
    recipe: str, searched: Mapping[str, Scores], judged: Mapping[str, Judged]
) -> dict[str, object]:
    return {
        "default": recipe,
        "recipes": {name: vars(recipe) for name, recipe in RECIPES.items()},
        "seeds": {"search": [SEARCH_SEED], "fresh": list(FRESH_SEEDS)},
        "search": searched,
        "fresh": {name: one.document() for name, one in judged.items()},
    }


if __name__ == "__main__":
    main()
