"""Columns that look like something else: long labels, dates, lists, gaps, classes as floats."""

import json

import pytest
from guessing import SENTENCE, TEXTS, csv, refusal, tasks_of
from sources import write

from cotrunk.data.guess.tasks import guess_tasks
from cotrunk.errors import UserError, for_command_line

REASONS = [
    "I have not received my order yet",
    "my product came broken or was damaged",
    "I want to change my delivery address",
]


def test_long_labels_that_repeat_are_classes_beside_a_text(tmp_path):
    rows = [[text, REASONS[n % 3], ["no", "yes"][n % 2]] for n, text in enumerate(TEXTS)]
    tasks = tasks_of(csv(tmp_path, ["message", "reason", "urgent"], rows))
    assert {name: task.texts for name, task in tasks.items()} == {
        "reason": ("message",),
        "urgent": ("message",),
    }
    assert tasks["reason"].options["classes"] == sorted(REASONS)


def test_repeated_texts_are_the_texts_if_there_are_no_others(tmp_path):
    rows = [[REASONS[n % 3], ["no", "yes"][n % 2]] for n in range(60)]
    (task,) = tasks_of(csv(tmp_path, ["message", "urgent"], rows)).values()
    assert (task.texts, task.label) == (("message",), "urgent")


@pytest.mark.parametrize("rows", [180, 20_100])
def test_texts_of_which_each_repeats_less_than_ten_times_are_no_classes(tmp_path, rows):
    lines = [[f"{SENTENCE} {n}", f"{SENTENCE} {n % 20} or so", "ab"[n % 2]] for n in range(rows)]
    tasks = tasks_of(csv(tmp_path, ["text", "other", "label"], lines))
    assert ("other" in tasks) == (rows > 200)


@pytest.mark.parametrize(
    "day",
    [
        "Mon Apr {:02} 22:19:45 PDT 2009",
        '"Mon, {:02} Apr 2009 22:19:07 +0000"',
        "{}. März 2024",
        "{} de marzo de 2024",
        "Monday {}th of June 2024 at 5 pm",
        '"Sept. {}, 2020 10:30 AM"',
    ],
)
def test_dates_in_words_are_no_labels_and_no_texts(tmp_path, day):
    rows = [[day.format(n % 9 + 1), text, n % 2] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(csv(tmp_path, ["day", "text", "liked"], rows)).values()
    assert (task.texts, task.label) == (("text",), "liked")


def test_texts_that_begin_with_a_month_are_still_texts(tmp_path):
    rows = [[f"May I ask how they are since 2009 {n}", n % 2] for n in range(30)]
    (task,) = tasks_of(csv(tmp_path, ["question", "liked"], rows)).values()
    assert task.texts == ("question",)


SETS = [["joy", "anger"], ["fear"], [], ["anger", "fear", "joy"], ["joy"]]


def test_lists_as_python_writes_them_are_refused_with_the_fix(tmp_path):
    rows = [[text, f'"{SETS[n % 5]}"'] for n, text in enumerate(TEXTS)]
    line = refusal(csv(tmp_path, ["text", "labels"], rows))
    assert "lists as Python writes them in column 'labels'; write them as JSON" in line


def test_lists_as_json_are_sets_of_classes(tmp_path):
    cells = [json.dumps(names).replace('"', '""') for names in SETS]
    rows = [[text, f'"{cells[n % 5]}"'] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(csv(tmp_path, ["text", "labels"], rows)).values()
    assert (task.kind, task.options["classes"]) == ("multilabel", ["anger", "fear", "joy"])


def test_a_text_with_many_gaps_is_left_out_and_one_with_few_is_skipped_there(tmp_path):
    rows = [
        ["" if n % 3 else f"{SENTENCE} {n}", "" if n == 7 else text, n % 2]
        for n, text in enumerate(TEXTS)
    ]
    (task,) = tasks_of(csv(tmp_path, ["title", "body", "liked"], rows)).values()
    assert task.texts == ("body",)
    assert task.skipped == ("1 row with nothing in 'body'",)
    assert "left out: title is empty in 40 rows" in task.why


@pytest.mark.parametrize("rows", [60, 20_100])
def test_gaps_in_a_text_are_counted_to_the_end_of_the_file(tmp_path, rows):
    lines = [["" if n > rows - 4 else f"{SENTENCE} {n}", n % 2] for n in range(rows)]
    (task,) = tasks_of(csv(tmp_path, ["text", "liked"], lines)).values()
    assert task.skipped == ("3 rows with nothing in 'text'",)


def test_a_word_in_each_row_is_refused_with_the_way_to_write_sentences(tmp_path):
    words = [("Ada", "NNP", "B-PER"), ("ran", "VBD", "O"), ("{}", "CD", "O")]
    rows = [
        ["" if at else f"Sentence: {n}", word.format(n), *tags]
        for n in range(50)
        for at, (word, *tags) in enumerate(words)
    ]
    line = refusal(csv(tmp_path, ["Sentence #", "Word", "POS", "Tag"], rows))
    assert "'Sentence #' in 50 of 150 rows" in line
    assert "CoNLL" in line


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["1.0", "2.0", "3.0", ""], ["1.0", "2.0", "3.0"]),
        (["0.0", "4.0"], ["0.0", "4.0"]),
        (["1.0", "2.0", "3.0", "10.0", "5.0", ""], ["1.0", "2.0", "3.0", "5.0", "10.0"]),
        (["1.0", "2.0", "3.0", "4.0", "5.0"], None),
        (["1.5", "2.0", "3.0", ""], None),
        (["1.0", "2", "2.0", "3.0"], None),
    ],
)
def test_class_codes_as_floating_point_numbers_are_classes(tmp_path, cells, classes):
    rows = [[text, cells[n % len(cells)]] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(csv(tmp_path, ["text", "code"], rows)).values()
    assert task.kind == ("classes" if classes else "score")
    assert task.options.get("classes") == classes


@pytest.mark.parametrize(("step", "said"), [(1.0, True), (0.5, False)])
def test_a_score_of_whole_numbers_comes_with_the_way_to_classes(tmp_path, step, said):
    row = '{"text": "%s", "code": %s}\n'
    lines = [row % (text, n % 5 * step + 1) for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert task.kind == "score"
    assert any(why.startswith("for classes") for why in task.why) == said


@pytest.mark.parametrize("rows", [3, 30])
def test_a_refusal_names_the_shell_command_as_such_in_python(tmp_path, rows):
    lines = [[f"{SENTENCE} {n}", f"u{n}"] for n in range(rows)]
    with pytest.raises(UserError) as caught:
        guess_tasks([csv(tmp_path, ["text", "user"], lines)])
    (line,) = caught.value.lines
    assert "the shell command `cotrunk init -o run.toml`" in str(caught.value)
    assert "by hand: cotrunk init -o run.toml shows how" in for_command_line(line)
