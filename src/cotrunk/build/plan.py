"""Settings -> the sharing plan of a network."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cotrunk.config.settings import Settings
from cotrunk.errors import Errors, UserError, plural
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape, linear_maps
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.low_rank_plan import LowRankPlan
from cotrunk.model.sharing.partition import parse_partition
from cotrunk.model.sharing.place import AddPlaces, Place, PlanContext
from cotrunk.model.sharing.places import ProjectedPlan, trunk_places
from cotrunk.model.sharing.plan import Plan, make_plan


def plan_of(
    settings: Settings,
    shape: Shape,
    tasks: Sequence[Task],
    heads: Mapping[str, HeadPlan],
    *,
    more: Sequence[AddPlaces] = (),
) -> Plan:
    """The plan of a config, with the places that the functions ``more`` add."""
    made = make_plan(trunk_of(settings, shape), shape, tasks, heads)
    return made.with_places(new_places(more, shape, tasks, heads))


def trunk_of(settings: Settings, shape: Shape) -> list[Place]:
    """The places below the heads; all errors are reported at once."""
    sharing, names, errors = settings.sharing, list(settings.tasks), Errors()
    projected, low_rank = None, None
    with errors.gathered():
        projected = _projected(settings, shape)
    with errors.gathered():
        low_rank = _low_rank(settings, shape)
    with errors.gathered():
        trunk = trunk_places(
            names,
            shape,
            encoder=f"S{shape.layers}" if sharing.encoder is None else sharing.encoder,
            embeddings=sharing.embeddings,
            pooler=sharing.pooler,
            neck=sharing.neck,
            pooled_norm=sharing.pooled_norm,
            projected=projected,
            low_rank=low_rank,
        )
    if settings.encoder.reset_layers > shape.layers:
        errors.lines.append(
            f"encoder.reset_layers = {settings.encoder.reset_layers}, "
            f"but the encoder has {plural(shape.layers, 'layer')}; give at most {shape.layers}"
        )
    errors.refuse()
    return trunk


def new_places(
    places: Sequence[AddPlaces], shape: Shape, tasks: Sequence[Task], heads: Mapping[str, HeadPlan]
) -> list[Place]:
    """The places that a caller's functions add to a plan."""
    context = PlanContext(shape, tuple(tasks), heads)
    return [place for add in places for place in add(context)]


def reset_places(settings: Settings, plan: Plan) -> frozenset[str]:
    """The top layers that start from random weights (``encoder.reset_layers``)."""
    layers = plan.acting("layer")
    kept = len(layers) - settings.encoder.reset_layers
    return frozenset(place.name for place in layers[kept:])


def _projected(settings: Settings, shape: Shape) -> ProjectedPlan | None:
    pal = settings.sharing.pal
    if pal is None:
        return None
    depths = _depths(pal.layers, shape)
    who = parse_partition(pal.who, list(settings.tasks), place="sharing.pal.who")
    return projected_plan(who, pal.size, pal.heads, depths, shape, gelu=pal.gelu, bias=pal.bias)


def projected_plan(
    who: tuple[frozenset[str], ...],
    size: int,
    heads: int,
    depths: tuple[int, ...],
    shape: Shape,
    *,
    gelu: bool = False,
    bias: bool = False,
    place: str = "sharing.pal",
) -> ProjectedPlan:
    if size < 1 or heads < 1:
        raise UserError(f"{place}.size = {size} and {place}.heads = {heads} must be 1 or more")
    if size % heads:
        below, above = size - size % heads, size - size % heads + heads
        nearest = " or ".join(str(n) for n in (below, above) if n)
        raise UserError(
            f"{place}.size = {size} is not divisible by {place}.heads = {heads}; "
            f"the nearest divisible sizes are {nearest}"
        )
    _refuse_absent_layers(depths, shape, place=place)
    return ProjectedPlan(who, size, heads, depths, gelu, bias)


def _low_rank(settings: Settings, shape: Shape) -> LowRankPlan | None:
    lora = settings.sharing.lora
    if lora is None:
        return None
    depths = _depths(lora.layers, shape)
    _refuse_absent_layers(depths, shape, place="sharing.lora")
    return LowRankPlan(
        who=parse_partition(lora.who, list(settings.tasks), place="sharing.lora.who"),
        rank=lora.rank,
        alpha=lora.alpha,
        on=tuple(name for name in linear_maps(shape) if name in lora.on),
        depths=depths,
        dropout=lora.dropout,
        merge_at_save=lora.merge_at_save,
    )


def settings_of_saved(settings: Settings) -> Settings:
    """The settings of the saved model, in which adapters with merge_at_save are merged."""
    lora = settings.sharing.lora
    if lora is None or not lora.merge_at_save:
        return settings
    sharing = settings.sharing.model_copy(update={"lora": None})
    return settings.model_copy(update={"sharing": sharing})


def _depths(layers: Sequence[int] | Literal["all"], shape: Shape) -> tuple[int, ...]:
    return tuple(range(shape.layers)) if layers == "all" else tuple(sorted(set(layers)))


def _refuse_absent_layers(depths: Sequence[int], shape: Shape, *, place: str) -> None:
    absent = [depth for depth in depths if depth >= shape.layers]
    if absent or not depths:
        raise UserError(
            f"{place}.layers: the encoder has layers 0..{shape.layers - 1} (counted from 0 here); "
            + (f"there is no layer {absent[0]}" if absent else "the list is empty")
            + '; list some of these, or use layers = "all"'
        )


def with_dropout(shape: Shape, settings: Settings) -> Shape:
    """The shape with the dropout rates of the settings, where they are given."""
    chosen = {
        name: rate
        for name in ("dropout", "attention_dropout")
        if (rate := getattr(settings.encoder, name)) is not None
    }
    return replace(shape, **chosen)
