"""The kind of task that labels words: reading, deciding, scoring, answering."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from pydantic import TypeAdapter, ValidationError
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from torch.testing import assert_close

from cotrunk.data.reading.examples import Rows, Source, raw_labels
from cotrunk.errors import UserError
from cotrunk.kinds.tags import Tags
from cotrunk.kinds.task import Task

NER = Tags(classes=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))
POS = Tags(classes=("NN", "VB", "."), scheme="plain")


def outputs(kind, rows):
    """Logits that say these tags; None is a word that was cut off."""
    unit = np.eye(kind.outputs)
    cut = np.full(kind.outputs, np.nan)
    return np.array(
        [cut if t is None else unit[kind.classes.index(t)] for row in rows for t in row]
    )


def targets(kind, rows):
    return np.array([number for row in rows for number in kind.read(row)])


def counts(rows):
    return np.array([len(row) for row in rows])


def test_a_tag_is_read_as_its_class():
    assert NER.read(["O", "B-LOC", "I-LOC"]) == (0.0, 3.0, 4.0)
    assert POS.read(("VB", ".")) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (
            ["O", "I-PER"],
            "word 2: under scheme bio an I- tag must continue an entity; found 'I-PER' af",
        ),
        (["O", "B-ORG"], "word 2: a tag must be one of 'O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC'; "),
        (["O", "B-PERS"], "word 2: .* found 'B-PERS'; did you mean 'B-PER'?"),
        (["O", None], "word 2: a tag must be one of .* found nothing"),
        (["O", 3], "word 2: a tag must be one of .* found 3"),
        ("O B-PER", "tags must be a list, one per word; found 'O B-PER'"),
        (3.0, "tags must be a list, one per word; found 3.0"),
    ],
)
def test_a_wrong_label_is_told_with_its_word(raw, told):
    with pytest.raises(ValueError, match=told):
        NER.read(raw)


def test_iob1_may_begin_an_entity_with_i():
    kind = Tags(classes=NER.classes, scheme="iob1")
    assert kind.read(["O", "I-PER", "B-PER"]) == (0.0, 2.0, 1.0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"classes": ["O"]}, "classes: give two or more different names; found 'O'"),
        ({"classes": ["O", "O"]}, "classes: give two or more different names"),
        (
            {"classes": ["a b", "c"], "scheme": "plain"},
            "a tag must not be empty or contain blanks; found 'a b'",
        ),
        (
            {"classes": ["O", "PER"]},
            "under scheme bio a tag must be O, B-TYPE or I-TYPE; found 'PER'",
        ),
        ({"classes": ["B-PER", "I-PER"]}, "scheme bio needs the tag 'O'"),
        ({"classes": ["A", "B"], "scheme": "plain", "metric": "entity-f1"}, 'not "plain"'),
        ({"classes": "from-dev"}, "from-train"),
        ({"classes": ["O", "B-PER"], "scheme": "bioes"}, "bio"),
    ],
)
def test_wrong_options_are_refused(options, told):
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(Tags).validate_python(options)


def test_options_come_as_a_config_writes_them():
    kind = TypeAdapter(Tags).validate_python({"classes": list(NER.classes)})
    assert kind == NER
    assert (kind.metric, POS.metric) == ("entity-f1", "accuracy")


def test_classes_from_train_hold_both_tags_of_each_type():
    kind = Tags(classes="from-train")
    assert kind.needs_fitting
    found = kind.fitted([["O", "B-b"], ["I-a", "PER"], None, [3]])
    assert found.classes == ("O", "B-a", "I-a", "B-b", "I-b")
    assert not found.needs_fitting
    assert Tags(classes="from-train").fitted([["B", "O"]]).classes == ("O", "B", "I")


def test_plain_classes_from_train_are_the_tags_seen():
    kind = Tags(classes="from-train", scheme="plain").fitted([["b", "a"], ["b"]])
    assert kind.classes == ("a", "b")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@given(data=st.data(), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_the_score_is_the_f1_of_seqeval_whatever_is_predicted(data, sizes):
    kind = Tags(classes=NER.classes, scheme="iob1")
    rows = [st.lists(st.sampled_from(NER.classes), min_size=n, max_size=n) for n in sizes]
    gold, predicted = ([data.draw(row) for row in rows] for _ in range(2))
    said, target = outputs(kind, predicted), targets(kind, gold)
    score = kind.scores(said, target, counts=counts(gold))
    assert_allclose(score.score, f1_score(gold, predicted))
    assert_allclose(score.more["precision"], precision_score(gold, predicted))
    assert_allclose(score.more["recall"], recall_score(gold, predicted))
    assert_allclose(score.more["accuracy"], accuracy_score(gold, predicted))
    assert (score.unit, score.rows) == (score.score, len(gold))


def test_an_entity_does_not_run_into_the_next_row():
    rows = [["O", "B-PER"], ["B-PER", "I-PER"]]
    said = outputs(NER, [["O", "B-PER"], ["I-PER", "I-PER"]])
    assert NER.scores(said, targets(NER, rows), counts=counts(rows)).score == 1


def test_answers_have_tags_and_entities_in_the_settled_form():
    said = [["O", "B-PER"], ["I-LOC"]]
    found = NER.answers(outputs(NER, said), counts=counts(said))
    assert [NER.to_json(answer) for answer in found] == [
        {"prediction": ["O", "B-PER"], "spans": [[1, 2, "PER"]]},
        {"prediction": ["I-LOC"], "spans": [[0, 1, "LOC"]]},
    ]
    assert NER.to_columns("ner", found[0]) == {"ner": "O B-PER"}
    assert NER.columns("ner") == ["ner"]


def test_a_word_that_was_cut_off_is_outside():
    said = [["B-PER", None]]
    (answer,) = NER.answers(outputs(NER, said), counts=counts(said))
    assert answer.prediction == ["B-PER", "O"]


def test_a_plain_word_that_was_cut_off_has_no_tag_and_is_wrong():
    said, gold = [["NN", None]], [["NN", "VB"]]
    output, target = outputs(POS, said), targets(POS, gold)
    (answer,) = POS.answers(output, counts=counts(said))
    assert POS.to_json(answer) == {"prediction": ["NN", None]}
    assert POS.to_columns("pos", answer) == {"pos": "NN -"}
    score = POS.scores(output, target, counts=counts(said))
    assert score.score == 0.5
    assert score.per_class == {"NN": 1.0, "VB": 0.0, ".": 0.0}
    assert POS.changed(output, output) == 0
    assert POS.errors(1e3 * output, target, counts=counts(said)).tolist() == [0.5]


def test_a_network_that_answers_nothing_has_no_score():
    said, target = np.full((2, 5), np.nan), np.zeros(2)
    score = NER.scores(said, target, counts=np.array([2]))
    assert score.metric == "entity-f1"
    assert np.isnan(score.score)


def test_accuracy_can_be_the_score_of_entities():
    kind = Tags(classes=NER.classes, metric="accuracy")
    gold, said = [["B-PER", "I-PER", "O", "O"]], [["B-PER", "O", "O", "O"]]
    score = kind.scores(outputs(kind, said), targets(kind, gold), counts=counts(gold))
    assert (score.metric, score.score, score.more["entity-f1"]) == ("accuracy", 0.75, 0.0)


def test_the_loss_of_a_word_is_its_cross_entropy():
    output_NO = torch.randn(7, 5, dtype=torch.float64)
    target_N = torch.tensor([0.0, 1, 2, 3, 4, 0, 0])
    wanted_N = -output_NO.log_softmax(1)[torch.arange(7), target_N.long()]
    assert_close(NER.loss(None, smoothing=0.0)(output_NO, target_N), wanted_N)
    smooth_N = 0.9 * wanted_N - 0.1 * output_NO.log_softmax(1).mean(1)
    assert_close(NER.loss("cross-entropy", smoothing=0.1)(output_NO, target_N), smooth_N)


def test_a_constant_answer_finds_no_entity_but_may_hit_many_plain_tags():
    assert NER.baseline(np.array([0.0, 0, 1])) == 0
    assert POS.baseline(np.array([0.0, 0, 1, 0])) == 0.75


def test_training_files_without_spans_are_told_what_to_set():
    with pytest.raises(ValueError, match=r"found 'O', 'ORG', 'PER'; set scheme = \"plain\""):
        Tags().fitted([["O", "PER"], ["ORG"]])
    with pytest.raises(ValueError, match=r"two or more different tags.*found 'NN'"):
        Tags(scheme="plain").fitted([["NN", "NN"]])
    with pytest.raises(ValueError, match="tags must be a list, one per word; found 'O B-PER'"):
        Tags().fitted(["O B-PER"])


def test_a_single_label_that_is_not_a_list_is_left_to_the_reading_of_rows():
    assert Tags().fitted(["O", ["O", "B-PER"]]).names == ("O", "B-PER", "I-PER")


def rows(folder, name, content, labels=NER):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return Rows(Task("ner", 1, labels), Source(path, ("tokens",), "tags"))


def test_a_wrong_tag_of_a_conll_file_is_told_at_its_own_line(tmp_path):
    read = rows(tmp_path, "a.conll", "Anna B-PER\nLee I-PER\n\nto O\nin O\nRome I-LOC\n\nBo X\n")
    with pytest.raises(UserError) as refused:
        list(read)
    assert [line.partition(" (tags): word ")[0] for line in refused.value.lines] == [
        f"{read.source.path}:6:2",
        f"{read.source.path}:8:2",
    ]


def test_tags_and_tokens_of_different_length_are_told_at_their_line(tmp_path):
    lists = [(["a", "b"], ["O", "O"]), (["a", "b"], ["O"]), (["a"], ["O", "O"])]
    lines = [json.dumps({"tokens": words, "tags": tags}) for words, tags in lists]
    with pytest.raises(UserError) as refused:
        list(rows(tmp_path, "a.jsonl", "\n".join(lines)))
    assert [line.split(":")[1] for line in refused.value.lines] == ["2 (tags)", "3 (tags)"]


def test_fitting_a_file_whose_rows_are_all_faulty_says_what_is_wrong_with_them(tmp_path):
    source = rows(tmp_path, "a.conll", "a O\nb\n").source
    with pytest.raises(UserError, match=r"a\.conll:2: a line must have 2 columns"):
        Tags().fitted(raw_labels(source, Tags()))
