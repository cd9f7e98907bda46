"""Pairs of sentences with a graded similarity, which follows from the parts that were changed."""

from dataclasses import dataclass
from random import Random

from tools.sample.scenes import HELD_ROLES, HELD_SCENES, ROLES, SCENES

Wordings = tuple[str, ...]

# What differs between the two sentences: the lowest score in tenths and the share of the rows.
KINDS = {
    "wording": (46, 22),
    "detail missing": (36, 15),
    "other place": (30, 8),
    "other person": (24, 7),
    "contradiction": (18, 7),
    "other action": (12, 11),
    "everything": (0, 24),
    "same roles": (46, 3),
    "swapped roles": (18, 3),
}
SPREAD = 4
REWORDED = 0.6
# The other held-out rows combine the parts of known scenes in new ways.
NEW_SCENES = 0.7


@dataclass(frozen=True)
class Scene:
    who: Wordings
    else_who: str
    does: Wordings
    contradicts: str
    else_does: str
    where: Wordings
    else_where: str


def parse_scene(block: str) -> Scene:
    who, does, other, where = block.split("\n")
    who, else_who = who.split(" | ")
    contradicts, else_does = other.split(" | ")
    where, else_where = where.split(" | ")
    return Scene(
        who=tuple(who.split(" = ")),
        else_who=else_who,
        does=tuple(does.split(" = ")),
        contradicts=contradicts,
        else_does=else_does,
        where=tuple(where.split(" = ")),
        else_where=else_where,
    )


def parse_scenes(text: str) -> list[Scene]:
    return [parse_scene(block) for block in text.strip().split("\n\n")]


def sentence(rng: Random, who: str, does: str, where: str) -> str:
    if where and rng.random() < 0.25:
        return f"{where[0].upper()}{where[1:]}, {who[0].lower()}{who[1:]} {does}."
    return f"{who} {does} {where}".rstrip() + "."


def scene_pair(rng: Random, kind: str, scenes: list[Scene]) -> tuple[str, str]:
    scene, unrelated = rng.sample(scenes, 2)
    # Index 0 or 1 of each part; the second sentence words most parts differently.
    first = [rng.randrange(2) for _ in range(3)]
    second = [1 - i if rng.random() < REWORDED else i for i in first]
    left = sentence(rng, scene.who[first[0]], scene.does[first[1]], scene.where[first[2]])
    who, does, where = scene.who[second[0]], scene.does[second[1]], scene.where[second[2]]
    match kind:
        case "detail missing":
            where = ""
        case "other place":
            where = scene.else_where
        case "other person":
            who = scene.else_who
        case "contradiction":
            does = scene.contradicts
        case "other action":
            does = scene.else_does
        case "everything":
            who, does = unrelated.who[second[0]], unrelated.does[second[1]]
            where = unrelated.where[second[2]]
    return left, sentence(rng, who, does, where)


def role_pair(rng: Random, text: str, *, swapped: bool) -> tuple[str, str]:
    parties, acts = rng.choice(text.strip().splitlines()).split(": ")
    agent, patient = rng.sample(parties.split(", "), 2)
    active, reworded, passive = acts.split(", ")
    clauses = [
        f"{agent} {active} {patient}",
        f"{agent} {reworded} {patient}",
        f"{patient} {passive} {agent}",
    ]
    left = rng.choice(clauses)
    clauses.remove(left)
    if swapped:
        agent, patient = patient, agent
        clauses = [f"{agent} {active} {patient}", f"{patient} {passive} {agent}"]
    right = rng.choice(clauses)
    return f"T{left[1:]}.", f"T{right[1:]}."


def draw(rng: Random, held_out: bool) -> tuple[str, str, float]:
    """Two sentences and their similarity, 0.0 (unrelated) to 5.0 (same meaning)."""
    kind = rng.choices(list(KINDS), [share for _, share in KINDS.values()])[0]
    if "roles" in kind:
        roles = HELD_ROLES if held_out else ROLES
        pair = role_pair(rng, roles, swapped=kind == "swapped roles")
    else:
        new = held_out and rng.random() < NEW_SCENES
        pair = scene_pair(rng, kind, parse_scenes(HELD_SCENES if new else SCENES))
    return *pair, (KINDS[kind][0] + rng.randint(0, SPREAD)) / 10
