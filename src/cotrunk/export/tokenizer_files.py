"""The tokenizer of a run as other libraries read it."""

from pathlib import Path

from tokenizers import Tokenizer

from cotrunk.files import write_whole
from cotrunk.infer.model import Model
from cotrunk.model.weights.tokenizer import BERT_TOKENS, ROBERTA_TOKENS
from cotrunk.runs.checkpoint import to_json


def write_tokenizer(model: Model, task: str, folder: Path) -> None:
    """tokenizer.json as it is, and what transformers needs to know beside it.

    The class is the plain one, because others rebuild the tokenizer from its vocabulary.
    """
    form = model.pair_formats[task]
    names = ["input_ids", "attention_mask"]
    if _reads_segments(model) and form.segments:
        names.insert(1, "token_type_ids")
    config: dict[str, object] = {
        **special_tokens(model.tokenizer),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": form.max_tokens,
        "model_input_names": names,
        "clean_up_tokenization_spaces": False,
    }
    write_whole(folder / "tokenizer.json", model.tokenizer.to_str(pretty=True).encode())
    write_whole(folder / "tokenizer_config.json", to_json(config))


def write_padding_tokenizer(model: Model, max_tokens: int, folder: Path) -> None:
    """tokenizer.json that also truncates and pads, for programs without transformers."""
    tokenizer = Tokenizer.from_str(model.tokenizer.to_str())
    pad = special_tokens(tokenizer).get("pad_token", "")
    number = tokenizer.token_to_id(pad)
    tokenizer.enable_truncation(max_tokens)  # the longer text of a pair first, as in training
    tokenizer.enable_padding(pad_id=number or 0, pad_token=pad)
    write_whole(folder / "tokenizer.json", tokenizer.to_str(pretty=True).encode())


def special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """The tokens that have a role, by its name in transformers."""
    known = [
        (role, token) for table in (ROBERTA_TOKENS, BERT_TOKENS) for role, token in table.items()
    ]
    return {role: token for role, token in known if tokenizer.token_to_id(token) is not None}


def _reads_segments(model: Model) -> bool:
    return model.network.shape.segments > 1
