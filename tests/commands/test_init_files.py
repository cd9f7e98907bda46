"""``cotrunk init FILE...``: from an unknown file to a config that trains as it is."""

import json
import tomllib
from pathlib import Path

import pytest
from shapes import TINY, reviews, sentence, write_csv


def test_files_named_for_splits_are_the_splits_of_one_table(cotrunk, tmp_path):
    files = []
    for split in ("train", "dev", "test"):
        rows = [[sentence(), n % 2] for n in range(60)]
        files.append(write_csv(tmp_path / f"mood-{split}.csv", ["text", "mood"], rows))
    names = [file.name for file in files]
    assert cotrunk("init", *names, "-o", "run.toml").code == 0
    (task,) = tomllib.loads((tmp_path / "run.toml").read_text())["tasks"].values()
    assert [task[s] for s in ("train", "dev", "test")] == names


def test_sets_of_names_are_a_multilabel_task(cotrunk, tmp_path):
    sets = ["a|b", "a", "b|c", "a|b|c", "c"]
    rows = [[sentence(), sets[n % 5]] for n in range(60)]
    file = write_csv(tmp_path / "sets.csv", ["text", "topics"], rows)
    assert cotrunk("init", file, "-o", tmp_path / "run.toml").code == 0
    task = tomllib.loads((tmp_path / "run.toml").read_text())["tasks"]["topics"]
    assert (task["kind"], task["classes"], task["separator"]) == (
        "multilabel",
        ["a", "b", "c"],
        "|",
    )


@pytest.mark.slow
def test_labels_are_read_to_the_end_of_a_long_file(cotrunk, tmp_path):
    rows = [[f"{sentence()} {n}", ["no", "yes"][n % 2], n % 30 / 10] for n in range(20_100)]
    rows[20_050][1:] = ["perhaps", 7.5]
    rows[20_060][1] = ""
    file = write_csv(tmp_path / "long.csv", ["text", "answer", "grade"], rows)
    assert cotrunk("init", file, "-o", tmp_path / "run.toml").code == 0
    tasks = tomllib.loads((tmp_path / "run.toml").read_text())["tasks"]
    assert tasks["answer"]["classes"] == ["no", "perhaps", "yes"]
    assert tasks["answer"]["sparse_labels"]
    assert tasks["grade"]["range"] == [0, 10]


@pytest.mark.slow
def test_numbers_written_as_decimals_are_classes_if_they_are_few_or_count_from_zero(
    cotrunk, tmp_path
):
    rows = [
        [sentence(), f"{n % 2}.0", f"{n % 3}.0", f"{n % 3 + 1}.0", f"{n % 4 + 1}.0"]
        for n in range(60)
    ]
    names = ["text", "two", "three", "from_one", "four"]
    file = write_csv(tmp_path / "numbers.csv", names, rows)
    assert cotrunk("init", file, "-o", tmp_path / "run.toml").code == 0
    tasks = tomllib.loads((tmp_path / "run.toml").read_text())["tasks"]
    kinds = {name: task["kind"] for name, task in tasks.items()}
    assert kinds == {"two": "binary", "three": "classes", "from_one": "classes", "four": "score"}
    said = cotrunk("train", tmp_path / "run.toml", "--out", tmp_path / "out", *TINY)
    assert said.code == 0, said.err


def test_labels_of_the_same_name_in_two_files_are_told_apart(cotrunk, tmp_path):
    files = []
    for name in ("one", "two"):
        rows = [[sentence(), n % 2] for n in range(60)]
        files.append(write_csv(tmp_path / f"{name}.csv", ["text", "label"], rows))
    assert cotrunk("init", *files, "-o", tmp_path / "run.toml").code == 0
    tasks = tomllib.loads((tmp_path / "run.toml").read_text())["tasks"]
    assert set(tasks) == {"one_label", "two_label"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text,other\n" + "all the same words here,unique\n" * 3, "no column looks like labels"),
        ("text,text\na b c d,1\n", "two columns are called"),
        ("text,label\n", "a header but no rows"),
        ("it is slow,0\n" + "it is bright and slow,1\n" * 9 + "tea,0\n", "looks like data"),
        ("", "empty"),
    ],
)
def test_a_file_without_a_task_is_refused_in_one_line(cotrunk, tmp_path, content, says):
    (tmp_path / "odd.csv").write_text(content)
    said = cotrunk("init", tmp_path / "odd.csv", "-o", tmp_path / "run.toml")
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert "odd.csv" in line
    assert says in line
    assert not (tmp_path / "run.toml").exists()


def test_rows_that_cannot_be_read_are_skipped_by_the_config_and_named(cotrunk, tmp_path):
    file = reviews(tmp_path)
    with file.open("a") as lines:
        lines.write("1,one cell too few\n")
    said = cotrunk("init", file, "-o", tmp_path / "run.toml")
    assert said.code == 0
    assert "note: stars skips 1 row that cannot be read; list them" in said.err
    text = (tmp_path / "run.toml").read_text()
    assert "1 row that cannot be read" in text
    assert tomllib.loads(text)["tasks"]["stars"]["skip_bad_rows"] is True
    said = cotrunk("train", tmp_path / "run.toml", "--out", tmp_path / "out", *TINY)
    assert said.code == 0, said.err


def test_comments_name_rare_classes_and_are_below_each_other(cotrunk, tmp_path):
    rows = [[sentence(), sentence(), "xy"[i % 2]] for i in range(30)]
    rows[7][2] = "odd"
    file = write_csv(tmp_path / "pairs.csv", ["question1", "question2", "label"], rows)
    assert cotrunk("init", file).code == 0
    text = Path("run.toml").read_text()
    assert "# rare: odd (1 row)" in text
    block = text.partition("[tasks.label]")[2].partition("[train]")[0]
    assert len({line.index("#") for line in block.splitlines() if "#" in line}) == 1


def test_booleans_of_json_are_named_as_in_the_file(cotrunk, tmp_path):
    rows = [{"text": sentence(), "ok": i % 2 == 0} for i in range(30)]
    (tmp_path / "ok.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cotrunk("init", tmp_path / "ok.jsonl").code == 0
    assert "# ok: false or true" in Path("run.toml").read_text()


def test_a_file_in_another_script_is_refused_with_the_way_to_convert_it(cotrunk, tmp_path):
    file = reviews(tmp_path)
    file.write_bytes(file.read_bytes() + "9,совсем другое письмо,1\n".encode("cp1251"))
    said = cotrunk("init", file, "-o", tmp_path / "run.toml")
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert "iconv" in line


def test_a_share_that_cannot_be_reached_is_said_before_training(cotrunk, tmp_path):
    texts = [f"{sentence()} number {n}" for n in range(80)]
    rows = [[texts[n], texts[79], n % 2] for n in range(60)]  # all share a text
    rows += [[texts[n], texts[n + 1], n % 2] for n in range(62, 78, 2)]
    file = write_csv(tmp_path / "star.csv", ["a", "b", "same"], rows)
    assert cotrunk("init", file, "-o", tmp_path / "run.toml").code == 0
    said = cotrunk("train", tmp_path / "run.toml", "--dry-run", *TINY, "tasks.same.dev=0.4")
    assert "rows that share a text stay together" in said.err


def test_files_and_a_preset_exclude_each_other(cotrunk, tmp_path):
    said = cotrunk("init", reviews(tmp_path), "--preset", "1-bert")
    assert said.code == 2
    assert "--preset" in said.err


@pytest.mark.slow
def test_a_conll_file_with_several_label_columns_trains_all_of_them(cotrunk, tmp_path):
    tags = ["DT I-NP O", "NN I-NP I-LOC", "VB I-VP O"]
    sentences = [
        "\n".join(f"{word} {tags[at % 3]}" for at, word in enumerate(sentence().split()))
        for _ in range(60)
    ]
    (tmp_path / "a.conll").write_text("-DOCSTART- -X- O O\n\n" + "\n\n".join(sentences) + "\n")
    assert cotrunk("init", "a.conll", "-o", "run.toml").code == 0
    said = cotrunk("train", "run.toml", "--out", "out", *TINY)
    assert said.code == 0, said.err
    scores = cotrunk("evaluate", "out", "--json").document["tasks"]
    metrics = {name: found["metric"] for name, found in scores.items()}
    assert metrics == {"pos": "accuracy", "chunk": "entity-f1", "ner": "entity-f1"}


@pytest.mark.slow
def test_a_config_for_bioes_tags_says_why_it_has_no_entity_f1_and_how_to_get_it(cotrunk, tmp_path):
    tags = {"river": "S-LOC", "old": "B-LOC", "town": "E-LOC"}
    words = [["old", "town", *sentence().split()] for _ in range(60)]
    lines = ["\n".join(f"{word} {tags.get(word, 'O')}" for word in some) for some in words]
    text = "\n\n".join(lines) + "\n"
    (tmp_path / "a.conll").write_text(text)
    assert cotrunk("init", "a.conll", "-o", "run.toml").code == 0
    written = (tmp_path / "run.toml").read_text()
    assert "# entities in BIOES, which is not supported: scored by the accuracy" in written
    (tmp_path / "a.conll").write_text(text.replace(" S-", " B-").replace(" E-", " I-"))
    (tmp_path / "run.toml").write_text(written.replace('scheme = "plain"', 'scheme = "bio"'))
    assert cotrunk("train", "run.toml", "--out", "out", *TINY).code == 0
    score = cotrunk("evaluate", "out", "--json").document["tasks"]["tags"]
    assert score["metric"] == "entity-f1"


def test_plain_text_becomes_a_config_that_trains_without_labels(cotrunk, tmp_path):
    lines = [f"{', '.join(sentence().split())} {n}.\n" for n in range(60)]
    (tmp_path / "corpus.txt").write_text("".join(lines))
    assert cotrunk("init", "corpus.txt", "-o", "run.toml").code == 0
    (task,) = tomllib.loads((tmp_path / "run.toml").read_text())["tasks"].values()
    assert task == {"kind": "mlm", "text": ["line"], "train": "corpus.txt", "dev": 0.1}
    said = cotrunk("train", "run.toml", "--out", "out", *TINY)
    assert said.code == 0, said.err
