"""What ``init`` makes of files: texts, labels and tasks, judged by the cells alone."""

import pytest
from guessing import SENTENCE, TEXTS, csv, refusal, tasks_of
from sources import write

from cotrunk.data.guess.names import task_name
from cotrunk.data.guess.schemes import scheme_of


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("thèmes", "themes"),
        ("Gefühl", "Gefuhl"),
        ("Größe (cm)", "Grosse_cm"),
        ("e\u0301tat", "etat"),
        ("情感", "task"),
        ("2nd", "task_2nd"),
        ("mean", "task_mean"),
        ("a" * 100, "a" * 64),
    ],
)
def test_a_task_is_named_after_its_column_in_plain_letters(column, name):
    assert task_name(column) == name


def test_names_that_have_no_latin_letters_are_told_apart(tmp_path):
    rows = [[f"{SENTENCE} {n}", n % 2, n % 3] for n in range(30)]
    assert set(tasks_of(csv(tmp_path, ["text", "情感", "评分"], rows))) == {"a_task", "a_task_2"}


CHINESE = ["这部电影非常好看", "故事很慢我不喜欢", "音乐太好听了"]


@pytest.mark.parametrize("texts", [CHINESE, ["この映画はとても良い", "音楽が好きではない"]])
def test_texts_without_blanks_are_texts_and_their_labels_labels(tmp_path, texts):
    rows = [[f"{texts[n % len(texts)]}{n}", ["正面", "负面"][n % 2]] for n in range(40)]
    (task,) = tasks_of(csv(tmp_path, ["评论", "情感"], rows)).values()
    assert (task.texts, task.label, task.kind) == (("评论",), "情感", "classes")
    assert task.options["classes"] == ["正面", "负面"]
    assert len(task.why) == 1


def test_repeated_chinese_texts_are_not_taken_for_classes(tmp_path):
    rows = [[CHINESE[n % 3] * 3, n % 2] for n in range(40)]
    (task,) = tasks_of(csv(tmp_path, ["评论", "情感"], rows)).values()
    assert (task.texts, task.kind) == (("评论",), "binary")


@pytest.mark.parametrize("short", ["café {}", "{}book new", "{}", "{0}th"], ids=lambda text: text)
def test_short_texts_are_the_most_varied_column_and_the_config_says_so(tmp_path, short):
    texts = [short.format("abcdefghij"[n % 10] * (n % 7 + 1)) for n in range(100)]
    rows = [
        [n + 7, f"u{n}" if " " in short else "u", texts[n], ["buy", "ask"][n % 2]]
        for n in range(100)
    ]
    (task,) = tasks_of(csv(tmp_path, ["nr", "user", "query", "intent"], rows)).values()
    assert (task.texts, task.label) == (("query",), "intent")
    assert task.id == "nr"
    assert any(line.startswith("no column looks like text; 'query' ") for line in task.why)


def test_a_refusal_says_only_what_is_true_of_each_column(tmp_path):
    rows = [[n % 3, "x", n / 7, n] for n in range(30)]
    line = refusal(csv(tmp_path, ["a", "b", "c", "d"], rows))
    for said in (
        "a (3 different numbers)",
        "b (always the same value)",
        "c (30 different numbers)",
        "d (a different number in every row)",
    ):
        assert said in line


def conll(folder, sentences):
    """A file of sentences such as "Ada NNP B-PER / ran VBD O", with other words in each."""
    lines = [
        "\n".join(f"w{number}{word}" for word in sentence.split(" / "))
        for number, sentence in enumerate(sentences)
    ]
    return write(folder, "a.conll", "\n\n".join(lines) + "\n")


def test_every_label_column_of_a_conll_file_is_a_task(tmp_path):
    rows = ["EU NNP I-NP I-ORG / rejects VBZ I-VP O", "A DT I-NP O / B NN I-NP I-LOC"] * 3
    path = conll(tmp_path, rows)
    tasks = tasks_of(write(tmp_path, "b.conll", "-DOCSTART- -X- O O\n\n" + path.read_text()))
    assert list(tasks) == ["pos", "chunk", "ner"]
    for name, task in tasks.items():
        assert (task.kind, task.label, task.texts) == ("tags", name, ("tokens",))
        assert task.columns == ("tokens", "pos", "chunk", "ner")
    schemes = [task.options.get("scheme") for task in tasks.values()]
    assert schemes == ["plain", "iob1", "iob1"]


def test_columns_that_are_not_tags_are_no_tasks_and_unknown_tags_keep_their_number(tmp_path):
    rows = ["x 1 _ a B-LOC B-X / y 2 _ b O O / z 3 _ a O O"] * 3
    tasks = tasks_of(conll(tmp_path, rows))
    assert list(tasks) == ["column4", "ner", "column6"]
    assert tasks["ner"].columns == ("tokens", "column2", "column3", "column4", "ner", "column6")


def test_a_conll_file_with_one_label_column_needs_no_names(tmp_path):
    (task,) = tasks_of(conll(tmp_path, ["x _ B-LOC / y _ O"] * 3)).values()
    assert (task.texts, task.label, task.columns) == (("tokens",), "tags", ())


def test_lists_of_other_lengths_are_not_tags(tmp_path):
    row = '{"tokens": ["w%d", "v", "x%d"], "pos": ["A", "B", "A"], "topics": ["tea", "sea"]}\n'
    path = write(tmp_path, "a.jsonl", "".join(row % (n, n) for n in range(9)))
    assert list(tasks_of(path)) == ["pos"]


@pytest.mark.parametrize(
    ("rows", "scheme", "misfits"),
    [
        (["B-X I-X O", "O B-Y B-Y"], "bio", 0),
        (["I-X I-X O", "I-Y B-Y O"], "iob1", 0),
        (["I-X I-Y O", "O O O"], "iob1", 0),
        (["B-X I-X O", "O B-X O", "O I-X O"], "bio", 1),
        (["O I-X O", "O I-Y O", "O B-X O"], "iob1", 0),
        (["O O O"], "plain", 0),
        (["B-X S-X O"], "plain", 0),
        (["NN VB NN"], "plain", 0),
        ([""], "plain", 0),
    ],
)
def test_the_scheme_of_tags_is_found(rows, scheme, misfits):
    assert scheme_of([row.split() for row in rows]) == (scheme, misfits)


@pytest.mark.parametrize(
    ("sentence", "note"),
    [
        ("x B-X / y E-X / z O / u S-Y", "BIOES, S- by B- and E- by I-"),
        ("x B-X / y I-X / z L-X / u O / v U-Y", "BILOU, U- by B- and L- by I-"),
        ("x B-X / y I-X / z O", None),
        ("x B-X / y E-X / z L-X / u O", None),
        ("x B-X / y E-X / z NN / u O", None),
        ("x S-X / y E-X", None),  # not without O
    ],
)
def test_tags_of_a_scheme_without_entity_f1_come_with_what_was_seen_and_how_to_convert_them(
    tmp_path, sentence, note
):
    (task,) = tasks_of(conll(tmp_path, [sentence] * 3)).values()
    if note is None:
        assert not any("not supported" in why for why in task.why)
        return
    name, changes = note.split(", ")
    assert task.options["scheme"] == "plain"
    assert task.why[-1] == (
        f"entities in {name}, which is not supported: scored by the accuracy of single tags; "
        f'for entity F1, replace {changes} in the files, and set scheme = "bio"'
    )


def test_rows_that_are_not_of_the_scheme_are_skipped_and_counted(tmp_path):
    (task,) = tasks_of(conll(tmp_path, ["x B-X / y I-X"] * 5 + ["x O / y I-X"])).values()
    assert task.has_bad_rows
    assert "1 row with an I- tag that continues nothing" in task.why[-1]


TAGGED = '{"tokens": ["w%d", "v"], "ner": ["B-X", "O"]}\n'
UNEQUAL = '{"tokens": ["w%d", "v"], "ner": ["B-X"]}\n'
UNTAGGED = '{"tokens": ["w%d", "v"], "ner": []}\n'


@pytest.mark.parametrize("rows", [9, 20_100])
def test_rows_with_unequal_numbers_of_words_and_tags_are_skipped_and_counted(tmp_path, rows):
    lines = [TAGGED % n for n in range(rows)] + [UNEQUAL % rows] * 2
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert task.has_bad_rows
    assert "2 rows with unequal numbers of words and tags" in task.why[-1]


def test_rows_without_tags_are_not_taken_for_unequal_ones(tmp_path):
    lines = [TAGGED % n for n in range(9)] + [UNTAGGED % 9]
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert not task.has_bad_rows


def test_an_empty_cell_of_a_set_means_no_class(tmp_path):
    rows = [[f"{SENTENCE} {n}", ["a;b", "b", "", "c;a;b", "c"][n % 5]] for n in range(60)]
    (task,) = tasks_of(csv(tmp_path, ["text", "topics"], rows)).values()
    assert task.kind == "multilabel"
    assert task.why[1:] == ("12 rows with an empty cell: no class",)
    assert not task.has_gaps


def test_a_set_that_is_missing_is_left_out_without_a_setting(tmp_path):
    sets = ['["a", "b"]', '["b"]', "[]", "null"]
    row = '{"text": "%s %d", "topics": %s}\n'
    lines = [row % (SENTENCE, n, sets[n % 4]) for n in range(60)]
    (task,) = tasks_of(write(tmp_path, "a.jsonl", "".join(lines))).values()
    assert task.kind == "multilabel"
    assert task.why[1:] == ("15 rows without a label: left out",)
    assert not task.has_gaps


def test_an_empty_cell_of_other_labels_is_a_gap(tmp_path):
    rows = [[f"{SENTENCE} {n}", ["a", "b", ""][n % 3]] for n in range(60)]
    (task,) = tasks_of(csv(tmp_path, ["text", "topic"], rows)).values()
    assert task.has_gaps
    assert task.why[1:] == ("20 rows without a label: left out",)


def semicolons(folder, header, rows):
    return write(folder, "a.csv", "\n".join(map(";".join, [header, *rows])) + "\n")


@pytest.mark.parametrize(
    "marks", [["4,5", "3,5", "3,0", "4,0"], ["1,03", "1,10", "2,03"], ["4", "4,5", "", "-1,5"]]
)
def test_decimal_commas_are_refused_with_the_fix_and_not_read_as_sets(tmp_path, marks):
    rows = [[text, marks[n % len(marks)]] for n, text in enumerate(TEXTS)]
    line = refusal(semicolons(tmp_path, ["Text", "Note"], rows))
    assert "decimal commas in column 'Note'; write numbers with a decimal point" in line


def test_a_column_with_decimal_commas_is_left_out_beside_other_labels(tmp_path):
    rows = [[text, ["4,5", "3,5"][n % 2], "ab"[n % 2]] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(semicolons(tmp_path, ["Text", "Note", "Art"], rows)).values()
    assert task.label == "Art"
    assert "decimal commas in column 'Note'" in task.why[-1]


def test_sets_of_numbers_with_three_in_a_cell_are_still_sets(tmp_path):
    rows = [[text, ["1,2,3", "2,3", "1", "1,3"][n % 4]] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(semicolons(tmp_path, ["Text", "Topics"], rows)).values()
    assert task.kind == "multilabel"


def test_a_row_with_a_decimal_comma_is_not_taken_for_a_header(tmp_path):
    rows = [[text, ["4,5", "3,5"][n % 2]] for n, text in enumerate(TEXTS)]
    assert "the first row looks like data" in refusal(semicolons(tmp_path, rows[0], rows[1:]))


@pytest.mark.parametrize(
    "label",
    [lambda n: ["pos", "neg"][n % 2], lambda n: n % 5, lambda n: ["a;b", "b", "c;a", "c"][n % 4]],
)
def test_a_first_row_that_is_data_is_not_taken_for_a_header(tmp_path, label):
    rows = [[text, label(n)] for n, text in enumerate(TEXTS)]
    line = refusal(csv(tmp_path, rows[0], rows[1:]))
    assert "a.csv:1: the first row looks like data" in line
    assert "put a line with a name for each column above it" in line


def test_pairs_of_texts_without_a_header_are_refused(tmp_path):
    rows = [[text, text[::-1]] for text in TEXTS]
    assert "the first row looks like data" in refusal(csv(tmp_path, rows[0], rows[1:]))


@pytest.mark.parametrize(
    ("header", "labels"),
    [
        (["text", "spam"], ["spam", "ham"]),
        (["0", "1"], [0, 1]),
        (["What did you like?", "stars"], [1, 2]),
        (["text", "label"], ["label", "pos"]),
    ],
)
def test_names_of_columns_are_not_taken_for_data(tmp_path, header, labels):
    rows = [[text, labels[n % 2]] for n, text in enumerate(TEXTS)]
    assert len(tasks_of(csv(tmp_path, header, rows))) == 1


def test_a_header_between_rows_does_not_make_the_header_data(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(TEXTS)]
    assert tasks_of(csv(tmp_path, ["my text", "label"], [*rows, ["my text", "label"], *rows]))


@pytest.mark.parametrize(
    "day",
    [
        "2024-06-{:02}",
        "{}.6.2024",
        "6/{}/24",
        "2024/06/{:02} 10:30",
        "2024-06-{:02}T10:30:00Z",
        "{} June 2024",
        "Jun {} 2024",
    ],
)
def test_dates_are_no_labels_and_no_texts(tmp_path, day):
    rows = [[text, day.format(n % 9 + 1), n % 2] for n, text in enumerate(TEXTS)]
    (task,) = tasks_of(csv(tmp_path, ["text", "day", "liked"], rows)).values()
    assert (task.texts, task.label) == (("text",), "liked")


@pytest.mark.parametrize(("rows", "tasks"), [(70, 0), (99, 1)])
def test_many_classes_need_three_rows_each(tmp_path, rows, tasks):
    cells = [[f"{SENTENCE} {n}", f"c{n % 33}", n % 2] for n in range(rows)]
    assert len(tasks_of(csv(tmp_path, ["text", "author", "liked"], cells))) == 1 + tasks


PROSE = ["The river, it is said, is slow.", '"Tea?" she asked.', "Yes.", "", "No, thank you."]


def test_lines_of_plain_text_become_a_task_without_labels(tmp_path):
    path = write(tmp_path, "corpus-train.txt", "\n".join(PROSE * 20) + "\n")
    (task,) = tasks_of(path).values()
    assert (task.name, task.kind, task.texts, task.label) == ("corpus", "mlm", ("line",), None)
    assert task.why == ("plain text without labels, a text in each of 80 lines",)
    assert task.dev == 0.1


@pytest.mark.parametrize("delimiter", ["\t", ";", ",", "|"])
def test_a_table_may_be_called_txt(tmp_path, delimiter):
    lines = ["text,liked", *(f"{text},{n % 2}" for n, text in enumerate(TEXTS))]
    path = write(tmp_path, "a.txt", "\n".join(lines).replace(",", delimiter))
    assert [task.kind for task in tasks_of(path).values()] == ["binary"]


def test_rows_with_too_many_delimiters_are_counted_with_the_way_to_quote_them(tmp_path):
    rows = [["well", "it is slow", n % 2] for n in range(60)]
    line = refusal(csv(tmp_path, ["text", "label"], rows))
    assert "a.csv:2: a row must have 2 cells, as the header has; found 3 (all 60 rows)" in line
    assert "put quotes around cells that contain ','" in line
    line = refusal(csv(tmp_path, ["text", "label"], [[SENTENCE, 1], *rows]))
    assert "(60 of 61 rows)" in line
    assert "skip_bad_rows" not in line


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [("a.csv", "text,label\n", "has a header but no rows"), ("a.jsonl", "\n", "has no rows")],
)
def test_a_file_without_rows_says_so(tmp_path, name, content, says):
    assert refusal(write(tmp_path, name, content)).endswith(says)


def test_a_long_file_without_labels_is_refused(tmp_path):
    rows = [[f"{SENTENCE} {n}", f"u{n}"] for n in range(20_100)]
    line = refusal(csv(tmp_path, ["text", "user"], rows))
    assert "no column looks like labels" in line
