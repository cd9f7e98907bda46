"""``/``: sentences answered by all tasks of a run while they are typed, or of two runs."""

from dataclasses import asdict
from functools import partial
from typing import Any

from cotrunk.serve.app import QUEUED, Routes, answers, descriptions
from cotrunk.serve.engine import Engine
from cotrunk.serve.info import tasks_of
from cotrunk.serve.page.assets import Assets, assets, own, sheet
from cotrunk.serve.service import Service
from cotrunk.study.report.drawing import draw

OTHER = "/other"
SHELL: Assets = {
    "/": partial(own, "playground.html"),
    "/static/playground.js": partial(own, "playground.js"),
    "/static/common.js": partial(own, "common.js"),
    "/static/page.css": sheet,
}


def pages_of(service: Service, other: Service | None = None) -> list[Routes]:
    """The routes of the page; the ``other`` run answers under ``/other``."""
    by_prefix = {"": service} | ({OTHER: other} if other else {})
    router = assets(SHELL)

    @router.get("/playground.json")
    async def found() -> dict[str, Any]:
        return {"runs": [about(prefix, each.engine) for prefix, each in by_prefix.items()]}

    pages = Routes(router, open_paths=SHELL)
    if not other:
        return [pages]
    queued = {f"{OTHER}{path}": other for path in QUEUED}
    return [
        pages,
        Routes(answers(other, prefix=OTHER), queued=queued),
        Routes(descriptions(other, prefix=OTHER)),
    ]


def about(prefix: str, engine: Engine) -> dict[str, Any]:
    """What the page shows of a run: its tasks, its plan, and what one pass computes."""
    info, network = tasks_of(engine), engine.model.model.network
    reads = {
        task: [read.task for read in plan.reads]
        for task, plan in network.head_plans.items()
        if plan.reads
    }
    return {
        "name": info.run,
        "which": info.which,
        "plan": info.plan,
        "parameters": engine.model.parameters,
        "predict": f"{prefix}/predict",
        "characters": info.limits["characters"],
        "drawing": asdict(draw(network.plan, reads)),
        "passes": [
            {"tasks": lane.tasks, "whole": lane.same_encoder}
            for lane in dict.fromkeys(engine.lanes.values())
        ],
        "tasks": [
            {
                **task.model_dump(),
                "drawn_as": engine.model.tasks[task.name].labels.drawn_as,
                "span": engine.model.tasks[task.name].labels.span,
            }
            for task in info.tasks
        ],
    }
