"""A report on runs: one page that is whole, escaped, honest and needs no network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import altair
import pytest
from parsed import HOSTILE, charts_of, read_page

from cotrunk.cli.main import main
from toy import train

SECTIONS = [
    "verdict",
    "scores",
    "learning",
    "cost",
    "plans",
    "conflicts",
    "sampling",
    "confusion",
    "calibration",
    "worst",
    "settings",
]


def report(*arguments: object) -> int:
    return main(["report", *map(str, arguments)])


def in_a_process(cache: Path, code: str, *arguments: object) -> subprocess.CompletedProcess:
    before = f"import sys; {code}; from cotrunk.cli.main import main; code = main(sys.argv[1:])"
    after = "sys.exit('torch' if 'torch' in sys.modules else code)"
    return subprocess.run(
        [sys.executable, "-c", f"{before}; {after}", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"COTRUNK_CACHE": str(cache)},
    )


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory) -> Path:
    """A report on all runs, written without torch: it would take longer to import than to read."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    done = in_a_process(trained / "cache", "pass", "report", trained / "runs", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.slow
def test_sections_are_in_reading_order_and_each_can_be_reached(page):
    found = read_page(page)
    sections = [each.attributes["id"] for each in found.all("section")]
    assert sections == SECTIONS
    links = [each.attributes["href"] for each in found.all("nav")[0].all("a")]
    assert links == [f"#{name}" for name in SECTIONS[1:]]
    titles = [each.tag for each in found.all("h1", "h2", "h3")]
    assert titles[:2] == ["h1", "h2"]
    assert titles.count("h1") == 1
    assert len(found.all("h2")) == len(SECTIONS)


def test_tables_have_captions_and_headers_and_can_be_scrolled_by_keyboard(page):
    found = read_page(page)
    tables = found.all("table")
    assert len(tables) >= 5
    for table in tables:
        assert table.all("caption")[0].words
        assert all(cell.attributes["scope"] in ("row", "col") for cell in table.all("th"))
        width = len(table.all("thead")[0].all("th"))
        assert all(len(row.all("th", "td")) == width for row in table.all("tr"))
    regions = [each for each in found.all("div") if each.attributes.get("class") == "scroll"]
    assert all(each.attributes["tabindex"] == "0" for each in regions)


@pytest.mark.slow
def test_every_chart_is_valid_has_data_and_can_be_read_out(page):
    found = read_page(page)
    places = [
        each.attributes["data-chart"]
        for each in found.all("div")
        if "data-chart" in each.attributes
    ]
    drawn = charts_of(found)
    assert sorted(places) == sorted(drawn["charts"])
    for name, variants in drawn["charts"].items():
        assert drawn["datasets"][name], name
        assert all(spec["description"] for spec in variants.values())
        if name.endswith(("mood", "mood-same", "time")):  # one of each kind of chart: it takes long
            for spec in variants.values():
                altair.Chart.from_dict({**spec, "config": drawn["config"]}, validate=True)
    assert set(drawn["charts"]["loss-mood"]) == {"linear", "log"}
    assert {"cost-parameters", "cost-time", "cost-memory"} <= set(drawn["charts"])
    assert all(svg.attributes["aria-label"] for svg in found.all("svg"))


def test_names_and_texts_are_shown_and_never_run(page):
    found = read_page(page)
    scripts = found.all("script")
    assert len(scripts) == 2
    assert "alert(1)" in found.all("main")[0].words
    texts = [each.words for each in found.all("blockquote")]
    assert any(HOSTILE in text for text in texts)
    names = [each.attributes["value"] for each in found.all("option")]
    assert HOSTILE in names
    assert HOSTILE in json.dumps(charts_of(found)["datasets"])


def test_the_page_forbids_itself_every_request(page):
    (policy,) = [
        each.attributes["content"]
        for each in read_page(page).all("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    links = [a for each in read_page(page).all() for a in ("src", "href") if a in each.attributes]
    assert "src" not in links


def test_the_verdict_names_the_noise(page):
    words = read_page(page).all("section")[0].words
    assert "dev rows" in words
    assert "seed" in words
    scores = next(s for s in read_page(page).all("section") if s.attributes["id"] == "scores").words
    assert "constant answer" in scores
    assert "95 % interval" in scores
    assert any(word in scores for word in ("undecided", "equivalent", "better", "worse"))


@pytest.mark.slow
def test_a_broken_run_is_shown_as_broken_and_the_rest_goes_on(runs, tmp_path, capsys):
    (runs / "shared-2" / "run.json").write_text("{")
    path = tmp_path / "page.html"
    assert report(runs, "-o", path, "--json") == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert [Path(each["run"]).name for each in document["broken"]] == ["shared-2"]
    assert "shared-2" in said.err
    (broken,) = [s for s in read_page(path).all("section") if s.attributes["id"] == "broken"]
    assert "shared-2" in broken.words
    assert "JSON" in broken.words


def test_what_is_wrong_with_the_only_run_is_said_once(tmp_path, capsys):
    (tmp_path / "run.json").write_text("{")
    assert report(tmp_path, "-o", tmp_path.parent / "page.html") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "run.json is not JSON" in line


@pytest.mark.slow
def test_a_report_on_one_run_judges_its_scores(trained, tmp_path):
    path = tmp_path / "page.html"
    assert report(trained / "runs" / "shared-1", "-o", path, "--title", "One & only") == 0
    found = read_page(path)
    assert found.all("h1")[0].words == "One & only"
    assert "shared-1 scores mood" in found.all("section")[0].words
    assert "cost" not in [each.attributes["id"] for each in found.all("section")]


@pytest.mark.slow
def test_texts_come_from_the_file_and_only_if_it_is_unchanged(trained, runs, tmp_path):
    path, moved = tmp_path / "page.html", trained / "mood-dev.csv"
    before = moved.read_bytes()
    try:
        moved.write_bytes(before + b"later,a new row,1\n")
        assert report(runs / "shared-1", "-o", path) == 0
        assert "has changed" in read_page(path).words
        moved.unlink()
        assert report(runs / "shared-1", "-o", path) == 0
        assert "not where it was" in read_page(path).words
    finally:
        moved.write_bytes(before)
    assert report(runs / "shared-1", "-o", path) == 0
    assert "Texts are missing" not in read_page(path).words


@pytest.mark.slow
def test_texts_of_rows_held_out_from_training_are_found(trained, tmp_path):
    changes = ["tasks.mood.dev=0.3", "train.max_steps=2"]
    assert train(trained / "toy.toml", tmp_path / "run", "--set", *changes) == 0
    path = tmp_path / "page.html"
    assert report(tmp_path / "run", "-o", path) == 0
    shown = [each.words for each in read_page(path).all("blockquote")]
    assert "Texts are missing" not in read_page(path).words
    assert any(text.endswith(HOSTILE) for text in shown)


@pytest.mark.slow
def test_charts_are_written_for_papers_in_colours_of_their_own(trained, tmp_path, capsys):
    arguments = [trained / "runs" / "shared-1", "-o", tmp_path / "page.html", "--json"]
    assert report(*arguments, "--svg", tmp_path / "svg", "--png", tmp_path / "deep" / "png") == 0
    document = json.loads(capsys.readouterr().out)
    svg, png = (list(map(Path, document[form])) for form in ("svg", "png"))
    assert [path.stem for path in svg] == [path.stem for path in png]
    assert {"plan-1", "loss-mood-log", "confusion-alike"} <= {path.stem for path in svg}
    for path in svg:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<svg")
        assert "var(--" not in text
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in png)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["{runs}", "-o", "{runs}"], "is a folder"),
        (["{runs}", "-o", "page.pdf"], "page.html"),
        (["{runs}", "--svg", "{runs}/shared-1/run.json"], "error: --svg /"),
        (["{runs}", "--baseline", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(trained, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert report(*(each.format(runs=trained / "runs") for each in arguments)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.slow
def test_the_packages_that_draw_are_imported_only_to_draw():
    modules = ("cli.report", "cli.demo", "cli.compare", "study.compare")
    imports = "; ".join(f"import cotrunk.{module}" for module in modules)
    code = (
        f"import sys; {imports}; sys.exit('altair' in sys.modules or 'vl_convert' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_without_the_extra_one_line_says_how_to_install_it(trained, tmp_path):
    done = in_a_process(
        trained / "cache",
        "sys.modules['altair'] = None",
        "report",
        trained / "runs",
        "-o",
        tmp_path / "p.html",
    )
    assert done.returncode == 2
    assert "cotrunk[report]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 400])
def test_a_browser_draws_everything_without_a_request_or_a_complaint(browser, page, width):
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark")
    requests, said = [], []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-drawn=all]", timeout=120_000)
    for section, option in (("learning", "log"), ("confusion", HOSTILE), ("worst", HOSTILE)):
        opened.select_option(f"#{section} select", option)
    opened.wait_for_selector(f'#worst [data-run="{HOSTILE}"]:not([hidden])')
    charts = opened.locator("[data-chart]").count()
    assert opened.locator("[data-chart] svg").count() == charts > 10
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert requests == [page.as_uri()]
    assert said == []
    opened.close()


AT_FIRST_CHART = f"""
new MutationObserver((_, observer) => {{
  if (!document.querySelector("[data-chart] svg")) return;
  observer.disconnect();
  for (const [section, value] of [["learning", "log"], ["confusion", {json.dumps(HOSTILE)}]]) {{
    const select = document.querySelector(`#${{section}} select`);
    select.value = value;
    select.dispatchEvent(new Event("change"));
  }}
}}).observe(document, {{ childList: true, subtree: true }});
"""


@pytest.mark.slow
def test_what_is_chosen_before_a_chart_is_drawn_is_drawn(browser, page):
    shown = {}
    for moment in ("never", "early"):
        opened, said = browser.new_page(), []
        opened.on("pageerror", lambda error, said=said: said.append(str(error)))
        if moment == "early":
            opened.add_init_script(AT_FIRST_CHART)
        opened.goto(page.as_uri())
        opened.wait_for_selector("html[data-drawn=all]", timeout=120_000)
        axes = opened.locator("#learning [data-chart] .role-axis").all()
        shown[moment] = [axis.get_attribute("aria-label") for axis in axes]
        assert said == []
        opened.close()
    assert shown["early"] != shown["never"]
