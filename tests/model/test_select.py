"""Places by their words in a config."""

import pytest
from schemes import MOPS, Pal, Scheme

from cotrunk.errors import UserError
from cotrunk.model.sharing.select import select

PLAN = Scheme("S3", neck="S-I", pooled_norm="S", pal=Pal(), heads=MOPS).plan()
LAYERS = ["layers.0", "layers.1", "layers.2"]


def names(text: str) -> list[str]:
    return [place.name for place in select(text, PLAN, place="train.freeze")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("embeddings", ["embeddings"]),
        ("layers", LAYERS),
        ("layers 1", LAYERS[:1]),
        ("layers 2-3", LAYERS[1:]),
        ("layers 1 - 3", LAYERS),
        ("layers 3, layers 1", [LAYERS[0], LAYERS[2]]),
        ("layers, layers 2", LAYERS),
        ("  layers   2 ,embeddings", ["embeddings", "layers.1"]),
        ("encoder", ["embeddings", *LAYERS, "pooler"]),
        ("encoder, pal", ["embeddings", *LAYERS, "projected", "pooler"]),
        ("neck", ["pooled_norm", "neck.0", "neck.1"]),
        ("neck 2", ["neck.1"]),
        ("heads", ["heads.sst", "heads.rude", "heads.para", "heads.sts"]),
        ("heads sts", ["heads.sts"]),
    ],
)
def test_words_name_places_in_the_order_of_the_plan(text, expected):
    assert names(text) == expected


PARTS = "parts are encoder, embeddings, layers, pal, pooler, neck, heads"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("layer 1-3", f"'layer' is not a part of this plan; {PARTS}; did you mean 'layers'?"),
        ("lora", f"'lora' is not a part of this plan; {PARTS}"),
        ("", f"'' is not a part of this plan; {PARTS}"),
        ("embeddings,", f"'' is not a part of this plan; {PARTS}"),
        (
            "layers 4",
            "this plan has layers 1-3, but no number 4",
        ),
        ("layers 0-2", "this plan has layers 1-3, but no number 0"),
        ("layers 2-9999", "but no number 4"),
        ("layers 3-1", "'3-1' is not a number or range; write for example 'layers 1-3'"),
        ("layers one", "'one' is not a number or range"),
        ("layers 99999999999999999999", "'99999999999999999999' is not a number or range"),
        ("embeddings 1", "'embeddings' has no numbers; write only 'embeddings'"),
        ("encoder 1", "'encoder' has no numbers"),
        ("pal 1", "'pal' has no numbers"),
        ("heads stss", "'stss' is not a task with heads; tasks are sst, rude, para, sts; did you"),
    ],
)
def test_what_names_no_place_is_refused_with_what_to_write(text, finding):
    with pytest.raises(UserError) as error:
        names(text)
    (line,) = error.value.lines
    assert line.startswith("train.freeze: ")
    assert finding in line
