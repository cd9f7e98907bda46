"""What ``init`` makes of odd labels: markers of missing values, padded numbers, objects."""

import pytest
from guessing import TEXTS, csv, refusal, tasks_of
from sources import write


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["a", "b", "NA", "null"], ["a", "b"]),
        (["a", "b", " N/A ", "#N/A"], ["a", "b"]),
        (["a", "b", "none", "None", "na"], ["None", "a", "b", "na", "none"]),
        (["a", "b", "?", "-"], ["a", "b"]),
        (["+", "-", "b"], ["+", "-", "b"]),
        (["?", "!", "."], ["!", ".", "?"]),
        (["asked", "?"], ["?", "asked"]),
    ],
)
def test_markers_of_missing_values_are_not_classes_but_real_names_are(tmp_path, cells, classes):
    rows = [[text, cells[n % len(cells)]] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(csv(tmp_path, ["text", "label"], rows)).values()
    assert task.options["classes"] == classes
    assert task.has_bad_rows == (len(classes) < len(cells))
    assert not task.has_gaps


def test_not_a_number_is_a_marker_in_json_as_well(tmp_path):
    row = '{"text": "%s", "grade": %s}\n'
    lines = [row % (text, n / 7 if n % 5 else "NaN") for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert task.kind == "score"
    assert task.skipped == ("12 rows with 'nan' instead of a label",)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "1e999", '"1e999"', "1" + "0" * 400])
def test_a_number_that_a_float_cannot_hold_is_a_marker(tmp_path, number):
    row = '{"text": "%s", "grade": %s}\n'
    lines = [row % (text, n / 7 if n % 5 else number) for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert task.kind == "score"
    (skipped,) = task.skipped
    assert skipped.startswith("12 rows with")


@pytest.mark.parametrize("code", ["{:03}", "0{}"])
def test_padded_numbers_that_differ_in_every_row_are_still_ids(tmp_path, code):
    rows = [[code.format(n), text, n % 2] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(csv(tmp_path, ["nr", "text", "liked"], rows)).values()
    assert (task.label, task.id) == ("liked", "nr")


def test_a_file_with_few_rows_is_refused_for_that_reason(tmp_path):
    rows = [[TEXTS[0], "good"], [TEXTS[1], "bad"], [TEXTS[2], "good"]]
    assert "has only 3 rows, too few" in refusal(csv(tmp_path, ["text", "label"], rows))
    constant = [[text, "good"] for text in TEXTS[:3]]
    assert "always the same value" in refusal(csv(tmp_path, ["text", "label"], constant))


def test_texts_inside_an_object_are_refused_with_the_column(tmp_path):
    row = '{"id": "u%d", "data": {"sentence": "%s"}, "class": "%s"}\n'
    lines = [row % (n, text, "ab"[n % 2]) for n, text in enumerate(TEXTS)]
    line = refusal(write(tmp_path, "a.jsonl", "".join(lines)))
    assert "'data' is an object; its fields should be at the top level" in line


def test_an_object_beside_texts_and_labels_is_left_out(tmp_path):
    row = '{"text": "%s", "meta": {"by": "u%d"}, "class": "%s"}\n'
    lines = [row % (text, n, "ab"[n % 2]) for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert (task.texts, task.label) == (("text",), "class")
    assert task.why[-1].startswith("left out: 'meta' is an object")
