"""``/runs``, in a browser: a table of runs, and reports on those that are chosen."""

import json
import os
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import pytest
from pages import fits, grave_faults, opened, serving

import cotrunk
from cotrunk.serve.guard import Rules
from cotrunk.serve.page.listing import Listing
from cotrunk.serve.runs_app import create_runs_app
from toy import write_toy

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=alert(1)>"
RUNNING = f"process {os.getpid()} on {socket.gethostname()}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs that finished, one that is broken, one that trains, and one that has only begun."""
    config = write_toy(tmp_path_factory.mktemp("listed"))
    root = config.parent / "runs"
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of guards: a few steps train nothing
        environment.setenv("COTRUNK_CACHE", str(config.parent / "cache"))
        for name, plan in (("shared", "S2"), (HOSTILE, "I2")):
            overrides = [f"sharing.encoder={plan}", "train.epochs=1", "train.steps_per_epoch=4"]
            cotrunk.train(config, root / "done" / name, overrides=overrides)
    broken = shutil.copytree(root / "done" / "shared", root / "broken")
    (broken / "run.json").write_text('{"settings": ', encoding="utf-8")
    training = shutil.copytree(root / "done" / "shared", root / "training")
    shutil.rmtree(training / "final")
    (training / ".lock").write_text(RUNNING, encoding="utf-8")
    with (training / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"event": "step", "st')
    (root / "begun" / "checkpoints").mkdir(parents=True)
    (root / "begun" / ".lock").write_text(RUNNING, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def address(runs):
    with serving(create_runs_app(runs, rules=Rules())) as found:
        yield found


def read(page: Any) -> None:
    page.wait_for_selector("html[data-read]")


def names(page: Any) -> list[str]:
    return page.locator("tbody th").all_inner_texts()


def row(page: Any, name: str) -> Any:
    return page.locator("tbody tr").filter(has=page.locator("th", has_text=name))


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_rows_are_those_of_the_run_folders(runs):
    rows = {row.name: row for row in Listing(runs).read().rows}
    states = {name: row.state for name, row in rows.items()}
    assert states == {
        "begun": "running",
        "broken": "broken",
        "training": "running",
        "done/shared": "finished",
        f"done/{HOSTILE}": "finished",
    }
    best = json.loads((runs / "done" / "shared" / "best" / "evaluation.json").read_text())
    shared = rows["done/shared"]
    assert shared.overall == best["overall"]["official"]
    assert shared.scores == {task: found["score"] for task, found in best["scores"].items()}
    assert shared.steps == rows["training"].steps == 4
    assert "not JSON" in rows["broken"].why


def test_the_plan_of_a_run_whose_config_names_none_is_that_of_its_network(runs, tmp_path):
    copied = Path(shutil.copytree(runs / "done" / "shared", tmp_path / "run"))
    record = json.loads((copied / "run.json").read_text())
    record["settings"]["sharing"]["encoder"] = None
    (copied / "run.json").write_text(json.dumps(record), encoding="utf-8")

    def plan() -> str:
        (row,) = Listing(tmp_path).read().rows
        return row.plan

    assert plan() == "S2"
    shutil.rmtree(copied / "best")
    shutil.rmtree(copied / "final")
    assert plan() == "S2"  # of the weights it starts from
    record["settings"]["encoder"]["weights"] = "./moved"
    (copied / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert plan() == "all layers shared"
    del record["base"]
    (copied / "run.json").write_text(json.dumps(record), encoding="utf-8")
    (row,) = Listing(tmp_path).read().rows
    assert (row.state, "it has no base" in row.why) == ("broken", True)


@pytest.mark.parametrize("gone", ["best/evaluation.json", "best"])
def test_a_finished_run_that_has_lost_its_scores_is_broken(runs, tmp_path, gone):
    copied = Path(shutil.copytree(runs / "done" / "shared", tmp_path / "run"))
    listing = Listing(tmp_path)
    assert [row.state for row in listing.read().rows] == ["finished"]
    shutil.move(copied / gone, tmp_path / "elsewhere")
    (row,) = listing.read().rows
    assert (row.state, "evaluation.json" in row.why) == ("broken", True)
    shutil.move(tmp_path / "elsewhere", copied / gone)
    (copied / "metrics.jsonl").write_text("")  # the manifest still lists the scores
    (copied / "best" / "evaluation.json").unlink()
    assert [row.state for row in listing.read().rows] == ["broken"]


def test_a_finished_run_that_was_never_evaluated_is_not_broken(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    assert [row.state for row in Listing(tmp_path).read().rows] == ["finished"]


def test_what_has_not_changed_is_not_read_again(runs, tmp_path):
    copied = Path(shutil.copytree(runs / "done", tmp_path / "done"))
    listing = Listing(copied)
    first, second = listing.read().rows, listing.read().rows
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True]
    shutil.rmtree(copied / "shared")
    assert len(listing.read().rows) == 1
    shutil.rmtree(copied / HOSTILE)
    assert listing.read().problems


@pytest.mark.parametrize("name", ["", "..", "../listed", "/etc", "done", "done/../done/shared"])
def test_only_names_in_the_listing_are_runs(address, name):
    query = urllib.parse.urlencode({"run": name})
    assert status_of(f"{address}/runs/report.html?{query}") == 404
    assert status_of(f"{address}/runs/report.html") == 422
    assert status_of(f"{address}/static/../runs.py") == 404


def test_the_table_is_sorted_filtered_and_searched(browser, address):
    with opened(browser, f"{address}/runs", width=400, dark=True) as page:
        read(page)
        assert len(names(page)) == 5
        assert "not JSON" in row(page, "broken").inner_text()
        assert HOSTILE in "".join(names(page))
        assert page.locator("main img").count() == 0
        page.get_by_role("button", name="run", exact=True).focus()
        page.keyboard.press("Enter")
        assert names(page) == sorted(names(page))
        page.keyboard.press("Enter")
        assert names(page) == sorted(names(page), reverse=True)
        assert page.locator("th[aria-sort=descending]").count() == 1
        page.fill("#search", "i2 mood")
        assert names(page) == [f"done/{HOSTILE}"]
        page.fill("#search", "")
        page.select_option("#state", "broken")
        assert names(page) == ["broken"]
        assert fits(page, 400)
        page.select_option("#state", "")
        assert grave_faults(page) == []


def test_the_table_follows_a_run_that_trains(browser, address, runs):
    metrics = runs / "training" / "metrics.jsonl"
    whole = metrics.read_bytes().rpartition(b"\n")[0] + b"\n"
    with opened(browser, f"{address}/runs") as page:
        read(page)
        before = row(page, "training").inner_text()
        with metrics.open("a", encoding="utf-8") as file:
            file.write('ep": 40}\n{"event": "step", "step": 41}\n')
        row(page, "training").get_by_role("cell", name="42", exact=True).wait_for()
        assert row(page, "training").inner_text() != before
    metrics.write_bytes(whole)


def test_runs_are_chosen_and_compared_as_in_a_report(browser, address):
    with opened(browser, f"{address}/runs", width=400) as page:
        read(page)
        for name in ("done/shared", f"done/{HOSTILE}"):
            page.get_by_label(f"Select {name}").check()
        page.get_by_role("button", name="Compare 2 runs").click()
        page.wait_for_selector("html[data-drawn=all]")
        charts = page.locator("[data-chart]").count()
        assert page.locator("[data-chart] svg").count() == charts > 10
        sections = [each.get_attribute("id") for each in page.locator("section").all()]
        assert {"verdict", "scores", "learning", "cost", "plans", "worst", "settings"} <= set(
            sections
        )
        page.select_option("#learning select", "log")
        assert page.locator("main img").count() == 0
        assert HOSTILE in page.locator("main").inner_text()
        assert fits(page, 400)
        assert grave_faults(page) == []


def test_a_report_on_one_run_is_reached_by_its_name(browser, address):
    with opened(browser, f"{address}/runs", dark=True) as page:
        read(page)
        page.get_by_role("link", name=HOSTILE).click()
        page.locator("h1", has_text=HOSTILE).wait_for()
        assert page.locator("section").first.get_attribute("id") == "verdict"


def test_a_report_that_is_being_made_is_named(browser, address):
    names = ["done/shared", f"done/{HOSTILE}"]
    query = urllib.parse.urlencode([("run", name) for name in names])
    context = browser.new_context()
    page = context.new_page()
    held = []
    page.route("**/runs/report.html**", lambda route: held.append(route))
    with page.expect_request("**/runs/report.html**"):
        page.goto(f"{address}/runs/report?{query}")
    assert page.inner_text("h1") == "2 runs"
    assert all(name in page.inner_text("h1 + #status") for name in names)
    assert grave_faults(page) == []
    held[0].continue_()
    page.wait_for_selector("html[data-drawn=all]")
    assert page.locator("h1 + #status").count() == 1
    context.close()


LISTENING = """
const signals = [];
const listen = EventTarget.prototype.addEventListener;
EventTarget.prototype.addEventListener = function (name, heard, options) {
  if (name === "beforeprint") signals.push(options?.signal);
  return listen.call(this, name, heard, options);
};
globalThis.stillListening = () => signals.filter((signal) => !signal?.aborted).length;
globalThis.drawn = () => signals.length;
"""


def test_a_report_that_is_made_again_leaves_nothing_of_the_last_one(browser, address, runs):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(LISTENING)
    page.clock.install()
    page.goto(f"{address}/runs/report?run=training")
    page.wait_for_selector("html[data-drawn=all]")
    os.utime(runs / "training" / "metrics.jsonl")
    page.clock.fast_forward("10:00")  # it looks again after a rest
    for _ in range(300):  # the policy of the page forbids what wait_for_function does
        if page.evaluate("drawn()") == 2:
            break
        page.wait_for_timeout(100)
    assert page.evaluate("[drawn(), stillListening()]") == [2, 1]
    context.close()


def test_a_run_without_scores_shows_its_training_losses(browser, runs, tmp_path):
    shutil.copytree(runs / "begun", tmp_path / "begun")
    early = Path(shutil.copytree(runs / "training", tmp_path / "<b>early"))
    shutil.rmtree(early / "best")
    with serving(create_runs_app(tmp_path, rules=Rules())) as address:
        for name, shown in (("begun", "before the first step"), ("<b>early", "4 steps done")):
            with opened(browser, f"{address}/runs/report?run={name}") as page:
                page.wait_for_selector("html[data-shown]")
                assert f"Training: {name}" in page.inner_text("#status")
                assert page.inner_text("h1") == name
                assert shown in page.inner_text("main")
                assert page.get_by_role("row", name="mood").count() == (name != "begun")
                assert grave_faults(page) == []


def test_a_report_that_is_refused_is_not_asked_for_again_and_again(browser, address):
    context = browser.new_context()
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.install()
    page.goto(f"{address}/runs/report?run=broken")
    page.wait_for_selector("html[data-shown]")
    for _ in range(2):
        with page.expect_response("**/runs.json"):
            page.clock.fast_forward("10:00")
    assert "broken" in page.inner_text("#status")
    assert len([url for url in asked if "report.html" in url]) == 1
    context.close()


def test_state_and_progress_stand_before_the_scores(browser, address):
    with opened(browser, f"{address}/runs", width=400) as page:
        read(page)
        titles = [each.get_attribute("data-key") for each in page.locator("thead button").all()]
        assert titles[:4] == ["name", "state", "steps", "changed"]
        why = row(page, "broken").locator(".why").bounding_box()
        assert why["x"] + why["width"] <= 400
