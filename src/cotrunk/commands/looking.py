"""Commands that look: presets, data, plans, runs."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cotrunk import blueprint, presets, screen, tables
from cotrunk.data.check import check
from cotrunk.data.text import template_of, tokens_of
from cotrunk.data.tokens import Tokeniser
from cotrunk.errors import UserError
from cotrunk.model.heads import HeadPlan
from cotrunk.model.ledger import Ledger, ledger
from cotrunk.model.plan import make_plan, parse_partition
from cotrunk.model.pretrained import find, load_tokenizer
from cotrunk.model.shape import Shape, named
from cotrunk.runs.folder import RunFolder, best_evaluation
from cotrunk.settings import Settings, read_settings
from cotrunk.tasks import Task

Document = dict[str, Any]
MINBERT_NAME = "{task}-output.csv"


def init(arguments: Namespace) -> Document:
    if arguments.list:
        known = presets.summaries()
        if not arguments.json:
            screen.out().print(screen.table("", ["preset", ""], known.items()), markup=False)
        return {"presets": known}
    text = presets.text(arguments.preset, data=arguments.data)
    path = Path(arguments.output or "run.toml")
    if path.exists():
        raise UserError(f"{path} is already there; give another name with -o, or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    screen.say(f"wrote {path}; now: cotrunk train {path} --out runs/{path.stem}")
    return {"config": str(path), "preset": arguments.preset}


def data_check(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    settings = read_settings(path)
    tasks = blueprint.tasks_of(settings)
    pretrained = find(settings.encoder.weights, base=path.parent)
    views = blueprint.views_of(settings, pretrained.shape)
    tokenizer = load_tokenizer(pretrained)
    template, tokenise = template_of(tokenizer), Tokeniser(tokenizer)
    document: Document = {"tasks": {}}
    wrong: list[str] = []
    for task in tasks:
        sources = {
            split: source
            for split in ("train", "dev", "test")
            if (source := blueprint.source_of(settings, task.name, split, path.parent))
        }

        def lengths(rows: Sequence[tuple[str, ...]], task: Task = task) -> list[int]:
            sizes = iter([len(ids) for ids in tokenise([t for row in rows for t in row])])
            return [
                tokens_of(template, [next(sizes) for _ in row], views[task.name]) for row in rows
            ]

        try:
            document["tasks"][task.name] = asdict(check(task, sources, lengths))["splits"]
        except UserError as error:
            wrong += error.lines
    if wrong:
        raise UserError(*wrong)
    if not arguments.json:
        for task in tasks:
            tables.show_check(task, document["tasks"][task.name])
    return document


def plan(arguments: Namespace) -> Document:
    made, reads = _planned(arguments)
    if not arguments.json:
        tables.show_plan(made, reads)
    return made.document()


def _planned(arguments: Namespace) -> tuple[Ledger, dict[str, list[str]]]:
    if arguments.config:
        return _planned_config(Path(arguments.config))
    tasks = [name.strip() for name in arguments.tasks.split(",") if name.strip()]
    if not tasks or len(set(tasks)) < len(tasks):
        raise UserError(f"--tasks {arguments.tasks}: give different names, separated by commas")
    shape = named(arguments.shape, "--shape")
    projected = None
    if arguments.pal is not None:
        who = parse_partition(arguments.pal_who, tasks, place="--pal-who")
        depths = tuple(range(shape.layers))
        projected = blueprint.projected_plan(who, arguments.pal, arguments.pal_heads, depths, shape)
    made = make_plan(
        tasks,
        layers=shape.layers,
        encoder=arguments.encoder or f"S{shape.layers}",
        embeddings=arguments.embeddings,
        pooler=arguments.pooler,
        neck=arguments.neck,
        projected=projected,
        place="plan",
    )
    heads = _head_sizes(arguments.heads, tasks, shape)
    return ledger(made, shape, heads=heads, frozen=arguments.freeze), {}


def _head_sizes(text: str | None, tasks: list[str], shape: Shape) -> dict[str, int]:
    if text is None:
        return {}
    counts = [part.strip() for part in text.split(",")]
    if len(counts) != len(tasks) or not all(count.isdecimal() for count in counts):
        raise UserError(f"--heads {text}: give one number of outputs per task ({len(tasks)})")
    return {task: (shape.width + 1) * int(count) for task, count in zip(tasks, counts, strict=True)}


def _planned_config(path: Path) -> tuple[Ledger, dict[str, list[str]]]:
    settings = read_settings(path)
    tasks = blueprint.tasks_of(settings)
    shape = find(settings.encoder.weights, base=path.parent).shape
    heads = blueprint.head_plans(settings, tasks)
    reads = {name: list(part.reads) for name, part in settings.tasks.items() if part.reads}
    return ledger_of(settings, tasks, shape, heads), reads


def ledger_of(
    settings: Settings, tasks: list[Task], shape: Shape, heads: dict[str, HeadPlan]
) -> Ledger:
    made = blueprint.plan_of(settings, shape)
    return ledger(
        made,
        shape,
        heads=head_parameters(tasks, heads, shape),
        pooled=[name for name, head in heads.items() if head.pooling == "pooler"],
        frozen=settings.train.freeze == "encoder",
    )


def head_parameters(tasks: list[Task], heads: dict[str, HeadPlan], shape: Shape) -> dict[str, int]:
    import torch

    from cotrunk.model.network import make_heads

    with torch.device("meta"):
        made = make_heads({task.name: task for task in tasks}, heads, shape.width)
    return {name: sum(p.numel() for p in head.parameters()) for name, head in made.items()}


def info(arguments: Namespace) -> Document:
    run = RunFolder.open(Path(arguments.folder))
    record = run.read_document("run")
    metrics = run.read_metrics()
    steps = [entry for entry in metrics if entry["event"] == "step"]
    settings = record["settings"]
    kept = best_evaluation(run)
    document: Document = {
        "run": str(run.path),
        "weights": settings["encoder"]["weights"],
        "sharing": {k: v for k, v in settings["sharing"].items() if v},
        "tasks": {name: part["kind"] for name, part in settings["tasks"].items()},
        "steps": len(steps),
        "finished": run.final.is_dir(),
        "checkpoints": sorted(path.name for path in run.checkpoints.iterdir()),
        "best_step": kept.get("step"),
        "scores": kept.get("scores", {}),
        "overall": {key: kept.get(key) for key in ("official", "mean")},
    }
    if not arguments.json:
        tables.show_info(document, kept)
    return document
