"""Model and run folders that someone else made: read within bounds, refused in one line."""

import copy
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from sealing import seal

ESC = "\x1b[31mred"


def refused(said, *parts: str) -> None:
    assert said.code == 2
    [line] = said.err.splitlines()
    assert line.isprintable()
    assert all(part in line for part in parts), line


@pytest.fixture
def model(toy, tmp_path) -> Path:
    """A folder in Hugging Face layout; the toy config names it."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    from cotrunk.model.weights.tokenizer import character_tokenizer

    folder = tmp_path / "model"
    folder.mkdir()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    config = BertConfig(vocab_size=300, num_hidden_layers=2, **sizes)
    save_file(BertModel(config).state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(config.to_json_string())
    tokenizer: Tokenizer = character_tokenizer("bert")
    tokenizer.save(str(folder / "tokenizer.json"))
    toy.write_text(toy.read_text().replace("random:tiny", "./model"))
    return folder


def train(cotrunk, toy):
    return cotrunk("train", toy, "--out", "run", "--set", "train.max_steps=1")


@pytest.mark.usefixtures("model")
def test_a_folder_that_is_sound_is_trained_from(cotrunk, toy):
    assert train(cotrunk, toy).code == 0


def test_a_tokenizer_without_special_tokens_is_refused(cotrunk, toy, model):
    content = json.loads((model / "tokenizer.json").read_text())
    (model / "tokenizer.json").write_text(json.dumps(content | {"post_processor": None}))
    refused(train(cotrunk, toy), "tokenizer.json", "post_processor")


def test_a_tokenizer_that_cannot_read_unknown_words_is_refused(cotrunk, toy, model):
    content = json.loads((model / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "[NOT THERE]"
    (model / "tokenizer.json").write_text(json.dumps(content))
    refused(train(cotrunk, toy), "tokenizer.json")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_pipe_or_a_device_is_not_read(cotrunk, toy, model, name):
    (model / name).unlink()
    os.mkfifo(model / name)
    refused(train(cotrunk, toy), "model")
    (model / name).unlink()
    (model / name).symlink_to("/dev/zero")
    refused(train(cotrunk, toy), "model")


def test_a_config_that_never_ends_is_not_read_to_its_end(cotrunk):
    refused(cotrunk("plan", "/dev/zero"), "/dev/zero", "bytes")


@pytest.mark.slow
def test_a_huge_tokenizer_is_refused(cotrunk, toy, model):
    content = (model / "tokenizer.json").read_text()
    many = ",".join(f'"w{number}":{number}' for number in range(1000, 1_501_000))
    (model / "tokenizer.json").write_text(re.sub('"vocab": ?{', f'"vocab":{{{many},', content))
    refused(train(cotrunk, toy), "tokenizer.json", "vocab_size")
    with (model / "tokenizer.json").open("r+b") as file:
        file.truncate(10**12)  # sparse: it takes no space
    refused(train(cotrunk, toy), "tokenizer.json", "larger than")


def test_weights_far_larger_than_their_config_are_not_read(cotrunk, toy, model):
    header = {"a": {"dtype": "F32", "shape": [2**36], "data_offsets": [0, 2**38]}}
    text = json.dumps(header).encode()
    with (model / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 2**38)  # sparse: it takes no space
    refused(train(cotrunk, toy), "model.safetensors", "bytes")


VALUES = [None, -1, 10**30, 1.5, True, "", ESC, [], {}, [None], {"type": "Sequence"}]


def places(document: object, path: tuple = ()):
    """The paths to some of the values of a document."""
    yield path
    inside = list(document.items()) if isinstance(document, dict) else []
    inside = list(enumerate(document)) if isinstance(document, list) else inside
    for key, value in inside[:4] + inside[-1:]:
        yield from places(value, (*path, key))


def altered(document: object, path: tuple, value: object) -> object:
    if not path:
        return value
    changed = copy.deepcopy(document)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["base", "config", "tokenizer"])
def test_altered_documents_under_a_new_manifest_are_one_line(cotrunk, run, name):
    """The values of all places take turns, so that there are as many cases as places."""
    file = run / "best" / f"{name}.json"
    sound = json.loads(file.read_bytes())
    cases = list(enumerate(dict.fromkeys(places(sound))))
    cases = [(path, VALUES[at % len(VALUES)]) for at, path in cases]
    cases += [((), value) for value in VALUES if value != ESC or name != "base"]
    for path, value in cases:
        file.write_text(json.dumps(altered(sound, path, value)))
        seal(run / "best")
        said = cotrunk("predict", run, "mood-dev.csv", "--task", "mood")
        assert said.code in (0, 2), (path, value)
        if said.code:
            refused(said, f"{name}.json" if not path else "best")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["settings", "base", "config", "tokenizer"])
def test_a_missing_document_under_a_new_manifest_is_one_line(cotrunk, run, name):
    (run / "best" / f"{name}.json").unlink()
    seal(run / "best")
    refused(cotrunk("evaluate", run), f"{name}.json")


def test_a_shape_that_does_not_fit_its_weights_takes_no_memory(cotrunk, run):
    file = run / "best/config.json"
    wide = {"hidden_size": 2**20, "intermediate_size": 2**24, "vocab_size": 2**24}
    config = json.loads(file.read_bytes())
    file.write_text(json.dumps(config | {"encoder": config["encoder"] | wide}))
    seal(run / "best")
    said = cotrunk("predict", run, "mood-dev.csv", "--task", "mood")
    refused(said, "best", "embeddings")


def test_pipes_in_a_run_folder_are_not_read(cotrunk, run):
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    said = cotrunk("info", run)
    assert said.code in (1, 2)
    assert "metrics.jsonl" in said.err


@pytest.mark.slow
def test_escapes_in_names_are_shown_escaped(cotrunk, toy, run):
    folder = run.with_name(ESC)
    shutil.move(run, folder)
    said = cotrunk("evaluate", folder)
    assert said.code == 0
    assert "\x1b" not in said.out + said.err
    assert r"\x1b[31mred" in said.out
    file = toy.parent / f"{ESC}.csv"
    (toy.parent / "mood-train.csv").rename(file)
    toy.write_text(re.sub("mood-train.csv", r"\\u001b[31mred.csv", toy.read_text()))
    file.write_text(f"id,sentence,{ESC}\n1,a,0\n")
    said = cotrunk("data", "check", toy)
    assert said.code == 2
    assert "\x1b" not in said.out + said.err
    said = cotrunk("info", f"nowhere{ESC}")
    refused(said, r"\x1b[31m")
