"""The kinds of tasks. Whatever depends on the kind is here; other code never checks it."""

from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.kind import CERTAINTY, Answer, Kind, Loss, by_row
from cotrunk.kinds.label_error import LabelError, WordError
from cotrunk.kinds.mlm import MaskedWords
from cotrunk.kinds.multilabel import Multilabel
from cotrunk.kinds.score import Scores
from cotrunk.kinds.tags import Tags

__all__ = ["CERTAINTY", "KINDS", "Answer", "Kind", "LabelError", "Loss", "WordError", "by_row"]

KINDS: dict[str, type[Kind]] = {
    "classes": Classes,
    "binary": Binary,
    "score": Scores,
    "multilabel": Multilabel,
    "tags": Tags,
    "mlm": MaskedWords,
}
