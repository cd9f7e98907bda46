"""The facts of a tokenizer that masked language modelling needs."""

import json
import re

from tokenizers import Tokenizer

from cotrunk.kinds.masking import Vocabulary, make_vocabulary

MASK = re.compile(r"\W*mask\W*", re.IGNORECASE)  # [MASK], <mask>, <|mask|>
FIRST_PIECES = {"ByteLevel": "Ġ", "Metaspace": "▁"}
"""How the first piece of a word begins, by the part of the tokenizer that marks it."""


def vocabulary_of(tokenizer: Tokenizer, *, size: int) -> Vocabulary:
    """``size``: rows of the encoder's word table.

    A tokenizer does not say which of its special tokens is the mask: it is known by its name.
    """
    spelled = json.loads(tokenizer.to_str())
    special = {token["content"] for token in spelled["added_tokens"] if token["special"]}
    parts = json.dumps([spelled["pre_tokenizer"], spelled["decoder"]])
    return make_vocabulary(
        tokenizer.get_vocab(with_added_tokens=True),
        special=special,
        mask=next((token for token in sorted(special) if MASK.fullmatch(token)), None),
        size=size,
        inside=spelled["model"].get("continuing_subword_prefix") or "",
        begin=next((mark for part, mark in FIRST_PIECES.items() if f'"{part}"' in parts), ""),
    )
