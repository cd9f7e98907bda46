"""Everything that depends on what a task predicts; nothing outside asks which kind it has."""

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.kind import Kind
from cotrunk.kinds.mlm import MaskedWords
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores

KINDS: dict[str, type[Kind]] = {
    "classes": Classes,
    "binary": Binary,
    "score": Scores,
    "multilabel": Multilabel,
    "mlm": MaskedWords,
}
