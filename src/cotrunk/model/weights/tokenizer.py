"""Tokenizers from a model folder, and a character tokenizer for random weights."""

import json
import string
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import Family
from cotrunk.model.weights.files import read_bounded, read_json

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

MOST_TOKENIZER_BYTES = 64 * 2**20  # three times the largest published one, of 250,000 tokens
MORE_ENTRIES = 10_000
PROBES = ["", "a B1!", "\u00e9\u5b57 \U0001f642 \u0627\u200b"]
"""Known and unknown characters."""


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


def read_tokenizer(file: Path, *, vocabulary: int) -> Tokenizer:
    """The tokenizer of a file from ``tokenizer_file``, checked.

    ``vocabulary``: the number of the encoder's word embeddings.
    """
    content = read_bounded(file, MOST_TOKENIZER_BYTES)
    _refuse_oversized(content, str(file), vocabulary)
    readers: dict[str, Callable[[bytes], Tokenizer]] = {
        "tokenizer.json": _from_json,
        "vocab.txt": partial(_word_piece, file.parent),
        "vocab.json": partial(_byte_pairs, file.parent),
    }
    return _checked(partial(readers[file.name], content), str(file), vocabulary)


def tokenizer_from(document: object, place: str, *, vocabulary: int) -> Tokenizer:
    """The tokenizer of a parsed tokenizer.json, checked; ``place`` names that file in errors."""
    content = json.dumps(document).encode()
    _refuse_oversized(content, place, vocabulary)
    return _checked(partial(_from_json, content), place, vocabulary)


def _refuse_oversized(content: bytes, place: str, vocabulary: int) -> None:
    """Checked before parsing, which would take a minute: a token has at most seven commas."""
    entries = content.count(b",") // 8
    if entries > vocabulary + MORE_ENTRIES:
        raise UserError(
            f"{place}: has far more tokens than config.json, which has vocab_size = {vocabulary}"
        )


def _checked(make: Callable[[], Tokenizer], place: str, vocabulary: int) -> Tokenizer:
    """Encodes a few texts: a tokenizer may be readable and still fail on its first text."""
    try:
        tokenizer = make()
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_batch(PROBES, add_special_tokens=False)
        frames = [tokenizer.encode("").ids, tokenizer.encode("", "").ids]
    except UserError:
        raise
    except Exception as error:  # `tokenizers` raises bare Exceptions
        raise UserError(f"{place}: not a readable tokenizer ({_first_line(error)})") from error
    if not all(frames):
        raise UserError(
            f"{place}: post_processor must put special tokens around a text and around a pair"
        )
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    highest = max((*ids, *frames[0], *frames[1]))
    if highest >= vocabulary:
        raise UserError(
            f"{place}: has the token id {highest}, but config.json has vocab_size = {vocabulary}"
        )
    return tokenizer


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


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


def _from_json(content: bytes) -> Tokenizer:
    return Tokenizer.from_str(content.decode())


def _word_piece(folder: Path, content: bytes) -> Tokenizer:
    lines = TextIOWrapper(BytesIO(content), encoding="utf-8")
    vocabulary = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    options = _options(folder)
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


def _byte_pairs(folder: Path, content: bytes) -> Tokenizer:
    options = _options(folder)
    tokens = _special(ROBERTA_TOKENS, options)
    add_prefix_space = options.get("add_prefix_space", False) is True
    tokenizer = Tokenizer(BPE(_pieces(content), _merges(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    _add_special(tokenizer, tokens)
    tokenizer.post_processor = _roberta_frame(tokenizer, tokens, add_prefix_space=add_prefix_space)
    return tokenizer


def _pieces(content: bytes) -> dict[str, int]:
    pieces = json.loads(content)
    if not isinstance(pieces, dict):
        raise ValueError("must be a JSON object of tokens and ids")
    return pieces


def _merges(file: Path) -> list[tuple[str, str]]:
    lines = read_bounded(file, MOST_TOKENIZER_BYTES).decode().replace("\r\n", "\n").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2:
            raise ValueError(f"{file.name}: merge {number:,} must be two tokens")
    return pairs  # type: ignore[return-value]


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
