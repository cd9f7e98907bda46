"""What masked language modelling needs to know about a tokenizer."""

import json
import re

from tokenizers import Tokenizer

from cotrunk.kinds.masking import Vocabulary, make_vocabulary

MASK = re.compile(r"\W*mask\W*", re.IGNORECASE)  # [MASK], <mask>, <|mask|>
FIRST_PIECES = {"ByteLevel": "Ġ", "Metaspace": "▁"}
"""The prefix of a word's first piece, by the part of the tokenizer that adds it."""


def vocabulary_of(tokenizer: Tokenizer, *, size: int) -> Vocabulary:
    """``size``: the number of the encoder's word embeddings.

    A tokenizer does not mark which of its special tokens is the mask, so its name decides.
    """
    config = json.loads(tokenizer.to_str())
    special = {token["content"] for token in config["added_tokens"] if token["special"]}
    parts = json.dumps([config["pre_tokenizer"], config["decoder"]])
    return make_vocabulary(
        tokenizer.get_vocab(with_added_tokens=True),
        special=special,
        mask=next((token for token in sorted(special) if MASK.fullmatch(token)), None),
        size=size,
        inside=config["model"].get("continuing_subword_prefix") or "",
        begin=next((mark for part, mark in FIRST_PIECES.items() if f'"{part}"' in parts), ""),
    )
