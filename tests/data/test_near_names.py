"""Which file was meant when there is none of the name."""

import pytest

from cotrunk.data.reading.files import near_name, tables_in


@pytest.mark.parametrize(
    ("name", "label_name"),
    [
        ("topics-trian.csv", "topics-train.csv"),
        ("topic-train.csv", "topics-train.csv"),
        ("topicstrain.csv", "topics-train.csv"),
        ("topics_train.csv", "topics-train.csv"),
        ("Topics-Train.CSV", "topics-train.csv"),
        ("topics-train.tsv", "topics-train.csv"),
        ("topics-devv.csv", "topics-dev.csv"),
    ],
)
def test_a_slip_of_the_pen_is_noticed(name, label_name):
    assert near_name(name, ["notes.txt", "topics-dev.csv", "topics-train.csv"]) == label_name


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("a.csv", ["b.csv"]),
        ("train.csv", ["dev.csv", "mood.csv"]),
        ("topics-test.csv", ["topics-dev.csv", "topics-train.csv"]),
        ("paraphrase-train.csv", ["paraphrase-dev.csv", "sentiment-train.csv"]),
        ("part-1.csv", ["part-2.csv", "part-10.csv"]),
        ("news.csv", []),
    ],
)
def test_another_file_is_not_proposed(name, others):
    assert near_name(name, others) is None


def test_only_files_that_can_be_read_are_proposed(tmp_path):
    for name in ("a.csv", "b.JSONL", "a.py", "a.csv.bak"):
        (tmp_path / name).touch()
    (tmp_path / "folder.csv").mkdir()
    assert tables_in(tmp_path) == ["a.csv", "b.JSONL"]
    assert tables_in(tmp_path / "nowhere") == []
