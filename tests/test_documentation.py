"""The documentation is true: its commands run, its site builds, its tables are the settings'."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser

import pytest

from cotrunk.config.settings import Settings
from cotrunk.kinds import KINDS
from documented import PAGES, ROOT, RUNNABLE, Reader, blocks_of, write_world
from tools import pictures, settings

BLOCKS = {page.name: blocks_of(page) for page in PAGES}
RUN = [name for name, found in BLOCKS.items() if any(b.language in RUNNABLE for b in found)]
GIVEN = {
    "compare.md": {"shared": "shared", "hybrid": "hybrid", "apart": "apart"},
    "report.md": {
        "demo/1-bert": "shared",
        "demo/3-bert": "apart",
        "demo/hybrid-bert": "hybrid",
        "a": "shared",
        "b": "apart",
    },
    "scores.md": {"one": "shared", "two": "apart"},
    "int8.md": {"one": "shared"},
    "export.md": {"one": "shared"},
    "howto.md": {"one": "hybrid"},
}
"""By page: the runs that it takes for granted, and which of the plans they have."""
WITHOUT_CONFIG = {"README.md", "index.md", "tutorial.md"}


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documented")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COTRUNK_CACHE", str(folder / "cache"))
        return folder, write_world(folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_every_block_runs_as_a_reader_would_run_it(world, tmp_path, monkeypatch, page):
    made, runs = world
    here = tmp_path / "reader"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("COTRUNK_CACHE", str(made / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    for file in made.iterdir():
        if file.is_file() and not (page in WITHOUT_CONFIG and file.suffix == ".toml"):
            shutil.copy(file, here)
    for name, plan in GIVEN.get(page, {}).items():
        shutil.copytree(runs[plan], here / "runs" / name)
    reader = Reader(here, made / "narrow")
    for block in BLOCKS[page]:
        if block.not_run is None:
            reader.follow(block)


def test_a_block_that_is_not_run_says_why():
    for found in BLOCKS.values():
        for block in found:
            if block.not_run is not None:
                assert block.language in RUNNABLE, block.place
                assert len(block.not_run.split()) > 1, block.place
    run = [b for found in BLOCKS.values() for b in found if b.language in RUNNABLE]
    assert sum(block.not_run is None for block in run) > len(run) / 2


def test_no_comment_is_misspelled_so_that_a_block_runs_or_not_by_accident():
    for page in PAGES:
        comments = re.findall(r"<!--\s*not.*?-->", page.read_text(encoding="utf-8"), re.I)
        used = [block for block in BLOCKS[page.name] if block.not_run is not None]
        assert len(comments) == len(used), page.name


class Loaded(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and named.get("src"):
            self.found.append(str(named["src"]))
        if tag == "link" and named.get("rel") != "canonical" and named.get("href"):
            self.found.append(str(named["href"]))


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.glob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.found
        assert not [address for address in loaded.found if "//" in address]
    styles = "".join(file.read_text(encoding="utf-8") for file in tmp_path.glob("css/*.css"))
    assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", styles)


def test_links_of_the_readme_lead_to_files():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert len(links) > 20
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_page_of_all_settings_is_what_the_settings_say():
    assert settings.PAGE.read_text(encoding="utf-8") == settings.page(), (
        "run: python -m tools.settings"
    )


def keys_of_settings():
    yield from re.findall(r"^\| `(\w+)` \|", settings.page(), re.M)


def test_every_setting_is_explained():
    text = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    assert not [key for key in keys_of_settings() if not re.search(rf"`{key}\b", text)]
    assert set(KINDS) <= set(re.findall(r"^\| `(\w+)` \|", text, re.M))


ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| ((?:`[^`]*`(?:, )?)+) \|", re.M)


@pytest.mark.parametrize("section", ["encoder", "train"])
def test_defaults_in_the_explanation_are_those_of_the_settings(section):
    text = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    part = re.search(rf"^## \[{section}\]$(.*?)^## ", text, re.M | re.S)
    fields = Settings.model_fields[section].annotation.model_fields
    checked = 0
    for names, defaults in ROW.findall(part[1]):
        keys, values = re.findall("`(.*?)`", names), re.findall("`(.*?)`", defaults)
        if len(keys) != len(values):
            continue  # one default for all
        for key, value in zip(keys, values, strict=True):
            assert tomllib.loads(f"x = {value}")["x"] == fields[key].default, key
            checked += 1
    assert checked > 2


@pytest.mark.parametrize("name", pictures.PLANS)
def test_pictures_of_plans_are_drawn_by_the_report(name):
    drawn = (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == pictures.picture(name), "run: python -m tools.pictures"
