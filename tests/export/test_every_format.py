"""Every scheme equals the run in the library it is exported to, or is refused by name."""

import pytest
from shipping import TASKS, exported, needs_peers, untrained

from cotrunk.errors import UserError
from cotrunk.export.to_onnx import Session, to_int8, write_graph
from cotrunk.infer.predictor import Predictor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of guards, and of other libraries
    needs_peers,
]

SEQUENCE, TOKENS = "AutoModelForSequenceClassification", "AutoModelForTokenClassification"
VECTORS, PAIRS = "SentenceTransformer", "CrossEncoder"
POOLER = 'encoder.pooling="pooler"'
TWO_LAYERS = [f"tasks.{task}.head={{depth=2, width=32}}" for task in ("mood", "same", "alike")]

# Scheme -> encoder, settings, and for some tasks what opens them, or a part of the refusal.
SCHEMES = {
    "1-bert": (
        "tiny",
        ["sharing.encoder=S2"],
        {"mood": ('found pooling = "mean"', VECTORS), "same": ('"mean"; use --to', PAIRS)},
    ),
    "hybrid": (
        "tiny-roberta",
        ["sharing.encoder=S1 I1", POOLER],
        {"same": (SEQUENCE, PAIRS), "names": (TOKENS, "labels words")},
    ),
    "lora": (
        "tiny",
        ["sharing.lora.who=I", "sharing.encoder=S2", POOLER],
        {"alike": (SEQUENCE, PAIRS)},
    ),
    "lora like its layers": (
        "tiny-distilbert",
        ["sharing.lora.who=I", "sharing.encoder=I2"],
        {"names": (TOKENS, "labels words")},
    ),
    "pals": (
        "tiny-distilbert",
        [
            "sharing.pal.size=8",
            "sharing.pal.heads=2",
            "sharing.encoder=S2",
            'encoder.pooling="cls"',
        ],
        {"mood": ("sharing.pal", "sharing.pal"), "names": ("sharing.pal", "labels words")},
    ),
    "progressive": (
        "tiny-roberta",
        [
            POOLER,
            'tasks.same.reads=["mood"]',
            'tasks.alike.reads=["mood", "same"]',
            'tasks.alike.reading.what="probabilities"',
        ],
        {"mood": (SEQUENCE, VECTORS), "same": ("reads the outputs of mood", "reads the outputs")},
    ),
    "neck": (
        "tiny",
        ["sharing.neck=S-I", 'encoder.pooling="max"'],
        {"mood": ('"max"', VECTORS), "names": ("one linear layer", "labels words")},
    ),
    "norm": (
        "tiny",
        ['sharing.pooled_norm="S"', POOLER],
        {"mood": ("sharing.pooled_norm", "sharing.pooled_norm")},
    ),
    "apart": (
        "tiny-distilbert",
        [
            'tasks.same.pair="all"',
            'tasks.alike.pair="cosine"',
            "tasks.alike.head.projection=true",
            'tasks.mood.pooling="sum"',
        ],
        {"alike": ('pair = "cosine"', VECTORS), "mood": ('"sum"; use --to onnx', '"sum"')},
    ),
    "apart, reading": (
        "tiny-roberta",
        [
            'tasks.same.pair="concat"',
            'tasks.alike.pair="difference"',
            'tasks.same.reads=["mood"]',
            'tasks.alike.reads=["mood", "same"]',
            'tasks.alike.reading.combine="attention"',
        ],
        {},
    ),
    "both orders": (
        "tiny",
        ["tasks.same.swap=true", "tasks.alike.segments=false", POOLER],
        {"same": ("swap = true", "swap = true"), "alike": (SEQUENCE, PAIRS)},
    ),
    "two layers": (
        "tiny-distilbert",
        ['encoder.pooling="cls"', *TWO_LAYERS],
        {"mood": (SEQUENCE, VECTORS), "same": (SEQUENCE, PAIRS)},
    ),
    "a tanh layer on the first token": (
        "tiny",
        ['encoder.pooling="cls"', *TWO_LAYERS, 'tasks.mood.head.activation="tanh"'],
        {"mood": (SEQUENCE, VECTORS), "same": ("relu 32, 1", PAIRS)},
    ),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_is_equal_in_every_format_or_refused(pooled_run, tmp_path, scheme):
    family, changes, expected = SCHEMES[scheme]
    config, run = pooled_run.with_name("toy.toml"), pooled_run
    model = untrained(config, f"encoder.weights=random:{family}", *changes)
    exported(model, run, "onnx", TASKS, tmp_path / "onnx")
    for task, both in expected.items():
        for to, what in zip(("transformers", "sentence-transformers"), both, strict=True):
            folder = tmp_path / f"{to}-{task}"
            if what in (SEQUENCE, TOKENS, VECTORS, PAIRS):
                assert exported(model, run, to, [task], folder)[0].opens_with == what
                continue
            with pytest.raises(UserError, match=f"^task {task}: ") as refused:
                exported(model, run, to, [task], folder)
            (line,) = refused.value.lines
            assert what in line
            assert "--to onnx" in line
            assert not folder.exists()


def test_adapters_can_be_kept_for_peft(pooled_run, tmp_path):
    changes = ["sharing.lora={who='I', on=['query', 'out', 'down'], layers=[1]}", POOLER]
    model = untrained(pooled_run.with_name("toy.toml"), *changes)
    exported(model, pooled_run, "transformers", ["same"], tmp_path / "kept", keep_lora=True)
    assert (tmp_path / "kept/adapter/adapter_model.safetensors").is_file()


def test_a_single_text_is_answered_beside_tasks_about_pairs_of_texts(pooled_run, tmp_path):
    changes = ['tasks.same.pair="sum"', "tasks.alike.swap=true"]
    model, folder = untrained(pooled_run.with_name("toy.toml"), *changes), tmp_path / "graph"
    folder.mkdir()
    write_graph(model, TASKS, folder, most_bytes=0)  # as large weights, in a file of their own
    assert (folder / "model.onnx.data").is_file()
    row = [("Good plot",)]
    ours = Predictor(model).output_rows(["mood"], row)[0]["mood"]
    assert Session(folder).outputs(model, "mood", row) == pytest.approx(ours, abs=1e-5)
    to_int8(folder)
    assert Session(folder).outputs(model, "mood", row) == pytest.approx(
        ours, abs=float(0.1 * ours.std())
    )


def test_minilm_with_mean_pooling_is_equal_as_vectors_pairs_and_graph(pooled_run, tmp_path):
    changes = ["encoder.weights=minilm", "sharing.encoder=S3 I3", "sharing.pal.size=24"]
    config = pooled_run.with_name("toy.toml")
    exported(untrained(config, *changes), pooled_run, "onnx", ["mood", "names"], tmp_path / "onnx")
    model = untrained(config, *changes[:1], "sharing.encoder=S6")
    exported(model, pooled_run, "sentence-transformers", ["mood", "same"], tmp_path / "sentences")
    exported(model, pooled_run, "transformers", ["names"], tmp_path / "names")


@pytest.mark.parametrize("pair", ["joined", "cosine"])
def test_scores_of_a_wide_range_are_exported_in_their_unit(pooled_run, tmp_path, pair):
    config = pooled_run.with_name("toy.toml")
    units = ["tasks.alike.range=[-1e6, 1e6]", "tasks.alike.label_unit=[0, 1e5]"]
    model = untrained(config, "encoder.pooling=pooler", *units, f"tasks.alike.pair={pair}")
    formats = ["onnx", "sentence-transformers"] + ["transformers"] * (pair == "joined")
    for to in formats:
        exported(model, pooled_run, to, ["alike"], tmp_path / to)
