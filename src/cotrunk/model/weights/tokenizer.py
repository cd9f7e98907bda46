"""Tokenizers from a model folder, and a character tokenizer for random weights."""

import string
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import Family
from cotrunk.model.weights.files import read_json

BERT_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
# In the order of RoBERTa's own ids: padding is 1.
ROBERTA_TOKENS = {
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}


def tokenizer_file(folder: Path) -> Path:
    """The tokenizer file of a folder: tokenizer.json, else a vocabulary."""
    for name, beside in (
        ("tokenizer.json", ()),
        ("vocab.txt", ()),
        ("vocab.json", ("merges.txt",)),
    ):
        if all((folder / file).is_file() for file in (name, *beside)):
            return folder / name
    raise UserError(
        f"{folder}: has no tokenizer (tokenizer.json, or vocab.txt, or vocab.json and merges.txt)"
    )


def read_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer of a file from ``tokenizer_file``, without truncation and padding."""
    readers = {"tokenizer.json": _from_json, "vocab.txt": _word_piece, "vocab.json": _byte_pairs}
    try:
        tokenizer = readers[file.name](file)
    except UserError:
        raise
    except Exception as error:  # `tokenizers` raises bare Exceptions
        raise UserError(f"{file}: not a readable tokenizer ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def character_tokenizer(family: Family) -> Tokenizer:
    """Lower-cased ASCII, one token per character; a word with any other character is unknown."""
    tokens = ROBERTA_TOKENS if family == "roberta" else BERT_TOKENS
    letters = string.ascii_lowercase + string.digits
    pieces = [*tokens.values(), *letters, *string.punctuation, *(f"##{one}" for one in letters)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = _bert_tokenizer(vocabulary, tokens, {})
    if family == "roberta":
        tokenizer.post_processor = _roberta_frame(tokenizer, tokens, add_prefix_space=False)
    return tokenizer


def _from_json(file: Path) -> Tokenizer:
    return Tokenizer.from_file(str(file))


def _word_piece(file: Path) -> Tokenizer:
    with file.open(encoding="utf-8") as lines:
        vocabulary = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    options = _options(file.parent)
    return _bert_tokenizer(vocabulary, _special(BERT_TOKENS, options), options)


def _bert_tokenizer(
    vocabulary: dict[str, int], tokens: Mapping[str, str], options: Mapping[str, object]
) -> Tokenizer:
    accents = options.get("strip_accents")
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=tokens["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.get("tokenize_chinese_chars", True) is not False,
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=options.get("do_lower_case", True) is not False,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    _add_special(tokenizer, tokens)
    tokenizer.post_processor = processors.BertProcessing(
        _with_id(tokenizer, tokens["sep_token"]), _with_id(tokenizer, tokens["cls_token"])
    )
    return tokenizer


def _byte_pairs(file: Path) -> Tokenizer:
    options = _options(file.parent)
    tokens = _special(ROBERTA_TOKENS, options)
    add_prefix_space = options.get("add_prefix_space", False) is True
    tokenizer = Tokenizer(BPE.from_file(str(file), str(file.with_name("merges.txt"))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    _add_special(tokenizer, tokens)
    tokenizer.post_processor = _roberta_frame(tokenizer, tokens, add_prefix_space=add_prefix_space)
    return tokenizer


def _roberta_frame(
    tokenizer: Tokenizer, tokens: Mapping[str, str], *, add_prefix_space: bool
) -> processors.RobertaProcessing:
    return processors.RobertaProcessing(
        _with_id(tokenizer, tokens["sep_token"]),
        _with_id(tokenizer, tokens["cls_token"]),
        trim_offsets=True,
        add_prefix_space=add_prefix_space,
    )


def _options(folder: Path) -> dict[str, object]:
    """The options of both files, if they exist; tokenizer_config.json has priority."""
    files = (folder / "special_tokens_map.json", folder / "tokenizer_config.json")
    return {
        key: value for file in files if file.is_file() for key, value in read_json(file).items()
    }


def _special(defaults: Mapping[str, str], options: Mapping[str, object]) -> dict[str, str]:
    tokens = {}
    for role, default in defaults.items():
        token = options.get(role, default)
        content = token.get("content") if isinstance(token, dict) else token
        tokens[role] = content if isinstance(content, str) else default
    return tokens


def _add_special(tokenizer: Tokenizer, tokens: Mapping[str, str]) -> None:
    missing = [token for token in tokens.values() if tokenizer.token_to_id(token) is None]
    if missing:
        # Added tokens would get new ids, beyond the rows of the word table.
        raise ValueError(f"the vocabulary has no {', '.join(missing)}")
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in tokens.values()]
    )


def _with_id(tokenizer: Tokenizer, token: str) -> tuple[str, int]:
    number = tokenizer.token_to_id(token)
    assert number is not None, token
    return token, number
