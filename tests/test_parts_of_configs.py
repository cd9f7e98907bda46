"""Configs that are cut down or put together: ``--unset``, and several files for one split."""

import csv

import pytest

from cotrunk.build.sources import sources_of
from cotrunk.build.tasks import tasks_of
from cotrunk.cli.main import main
from cotrunk.config.check import read_settings
from cotrunk.errors import UserError
from toy import contents, train, train_until, write_rows


def test_an_unset_task_is_as_if_it_had_never_been_written(toy):
    text = toy.read_text()
    start, end = text.index("[tasks.alike]"), text.index("[train]")
    shorter = toy.with_name("shorter.toml")
    shorter.write_text(text[:start] + text[end:])
    assert read_settings(toy, unset=["tasks.alike"]) == read_settings(shorter)


def test_a_key_is_unset_before_others_are_set(toy):
    unset = ["train.lr", "tasks.same"]
    settings = read_settings(toy, ["train.lr=0.5"], unset=unset)
    assert settings.train.lr == 0.5
    assert list(settings.tasks) == ["mood", "alike"]


def test_all_keys_that_cannot_be_unset_are_named(toy):
    with pytest.raises(UserError) as found:
        read_settings(toy, unset=["tasks.moot", "sharing.pal.size", "train.lr"])
    first, second = found.value.lines
    assert "tasks.moot" in first
    assert "'tasks.mood'" in first
    assert "sharing.pal.size" in second


def test_commands_that_change_settings_can_remove_them(toy, capsys):
    for command in (["plan"], ["data", "check"], ["train", "--dry-run", "--out", "nowhere"]):
        assert main([*command[:2], str(toy), *command[2:], "--unset", "tasks.alike"]) == 0
        assert "alike" not in capsys.readouterr().out
    assert main(["plan", "--unset", "tasks.alike"]) == 2


@pytest.fixture
def halves(toy):
    """A config that reads the rows of mood-train.csv from two files."""
    with (toy.parent / "mood-train.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    write_rows(toy.parent / "one.csv", header, rows[:15])
    write_rows(toy.parent / "two.csv", header, rows[15:])
    return 'tasks.mood.train=["one.csv", "two.csv"]'


@pytest.mark.slow
def test_two_files_train_as_one_file_with_all_their_rows(toy, tmp_path, halves):
    train_until(toy, tmp_path / "whole")
    train_until(toy, tmp_path / "cut", halves)
    for name, data in contents(tmp_path / "whole").items():
        assert contents(tmp_path / "cut")[name] == data, name


def test_every_missing_file_of_a_list_is_named(toy, tmp_path, capsys):
    files = 'tasks.mood.train=["mood-train.csv", "nowhere.csv", "neither.csv"]'
    assert train(toy, tmp_path / "run", "--set", files) == 2
    said = capsys.readouterr().err
    assert "nowhere.csv" in said
    assert "neither.csv" in said


def test_labels_are_sparse_in_the_listed_files_that_tasks_share(toy):
    lists = ['tasks.same.train=["pair-train.csv", "pair-dev.csv"]', "tasks.same.dev=mood-dev.csv"]
    settings = read_settings(toy, lists)
    found = sources_of(settings, tasks_of(settings), toy.parent)["train"]["same"]
    assert [source.sparse_labels for source in found] == [True, False]


def test_an_empty_list_of_files_is_refused(toy):
    with pytest.raises(UserError, match=r"tasks\.mood\.train"):
        read_settings(toy, ["tasks.mood.train=[]"])
