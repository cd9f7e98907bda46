"""Settings that were renamed are answered with the new name."""

import pytest

from cotrunk.config.check import check_settings
from cotrunk.config.overrides import apply_changes
from cotrunk.config.renamed import RENAMED
from cotrunk.config.settings import Train
from cotrunk.errors import UserError, for_command_line

TASKS = {"mood": {"kind": "classes", "classes": 3, "text": ["sentence"], "label": "mood"}}


def refusal(raw: dict[str, object], changes: list[str]) -> tuple[str, ...]:
    changed = apply_changes(raw, changes)
    with pytest.raises(UserError) as refused:
        check_settings(raw, place="my.toml", changed=changed)
    return tuple(map(for_command_line, refused.value.lines))


@pytest.mark.parametrize("old", RENAMED)
def test_a_renamed_key_is_answered_with_its_new_name(old):
    key, new = old.partition(".")[2], RENAMED[old]
    told = f"{old} is not a setting: it is now called {new}"
    assert refusal({"tasks": TASKS, "train": {key: 1}}, []) == (f"my.toml: {told}",)
    assert refusal({"tasks": TASKS, "train": {}}, [f"{old}=1"]) == (f"--set {told}",)


@pytest.mark.parametrize("old", RENAMED)
def test_a_renamed_key_of_a_stage_is_answered_too(old):
    key, new = old.partition(".")[2], RENAMED[old].partition(".")[2]
    told = f"my.toml: stages 1: {key} is not a setting: it is now called {new}"
    assert refusal({"tasks": TASKS, "stages": [{key: 1}]}, []) == (told,)


def test_new_names_are_settings_and_old_ones_are_not():
    for old, new in RENAMED.items():
        assert new.removeprefix("train.") in Train.model_fields
        assert old.removeprefix("train.") not in Train.model_fields
