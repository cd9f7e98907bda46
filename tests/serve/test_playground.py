"""``/``, in a browser: sentences answered while they are typed."""

from typing import Any

import pytest
from pages import fits, grave_faults, opened, serving

from cotrunk.serve.app import create_app
from cotrunk.serve.guard import Rules
from cotrunk.serve.metrics import Metrics
from cotrunk.serve.page.playground import pages_of
from cotrunk.serve.service import Service

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=alert(1)> good river"


def service_of(model: Any) -> Service:
    return Service(model, threads=1, queue_tokens=1 << 14, deadline=60.0, metrics=Metrics())


@pytest.fixture(scope="module")
def address(model):
    """A page of two runs, which are the same one here."""
    services = service_of(model), service_of(model)
    with serving(create_app(services[0], rules=Rules(), more=pages_of(*services))) as found:
        yield found
    for service in services:
        service.close()


def ready(page: Any) -> None:
    """It has answered its first example."""
    answered(page)


def answered(page: Any) -> None:
    page.wait_for_selector("html[data-state=answered]")


def asked(page: Any, address: str, given: dict[str, str]) -> dict[str, Any]:
    response = page.request.post(f"{address}/predict", data={"inputs": [given]})
    assert response.ok
    return response.json()["outputs"][0]


def shown(page: Any, task: str, *, run: int = 0) -> Any:
    return page.locator(f'[data-run="{run}"] [data-task="{task}"] .answer')


def test_what_is_shown_is_what_predict_answers(browser, address):
    with opened(browser, address) as page:
        ready(page)
        page.fill("#text", "a good river")
        page.fill("#pair", "a bright stone")
        answered(page)
        found = asked(page, address, {"text": "a good river", "pair": "a bright stone"})
        for run in (0, 1):
            meters = shown(page, "mood", run=run).locator("meter")
            values = [float(each.get_attribute("value")) for each in meters.all()]
            assert values == pytest.approx(found["mood"]["probabilities"])
            mood = shown(page, "mood", run=run).locator("p").inner_text()
            assert mood == str(found["mood"]["prediction"])
            (share,) = shown(page, "same", run=run).locator("meter").all()
            assert float(share.get_attribute("value")) == pytest.approx(
                found["same"]["probabilities"][0]
            )
            gauge = shown(page, "alike", run=run).locator("meter")
            assert [gauge.get_attribute(end) for end in ("min", "max")] == ["0", "5"]
            score = float(gauge.get_attribute("value"))
            assert score == pytest.approx(found["alike"]["prediction"])
            words = shown(page, "words", run=run).locator(".word").all()
            tags = [each.locator(".tag").all_inner_texts() for each in words]
            assert tags == [[] if tag == "O" else [tag] for tag in found["words"]["prediction"]]
        assert "ms" in page.inner_text("#status")
        assert "mood: " in page.inner_text("#spoken")
        assert page.locator("[data-run] svg[role=img]").count() == 2


def test_only_the_newest_sentence_is_answered(browser, address):
    with opened(browser, address) as page:
        ready(page)
        held = []

        def hold(route):
            if "slow" in (route.request.post_data or ""):
                held.append(route)
            else:
                route.continue_()

        page.route("**/predict", hold)
        with page.expect_request("**/other/predict"):
            page.fill("#text", "slow")
        page.fill("#text", "fine")
        answered(page)
        assert len(held) == 2
        assert shown(page, "words").locator(".word").inner_text().startswith("fine")


def test_an_example_can_be_clicked_and_a_pair_is_asked_for(browser, address):
    with opened(browser, address, width=400, dark=True) as page:
        ready(page)
        page.locator("#tries button").first.click()
        answered(page)
        assert page.input_value("#text") in page.locator("#tries button").first.inner_text()
        assert "second sentence" in shown(page, "same").inner_text()
        page.locator("#tries button").last.click()
        answered(page)
        assert page.input_value("#pair")
        assert shown(page, "same").locator("meter").count() == 1
        assert fits(page, 400)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground != "rgb(255, 255, 255)"


def test_an_example_is_answered_at_first_and_typing_replaces_it(browser, address):
    with opened(browser, address) as page:
        ready(page)
        given = {"text": page.input_value("#text"), "pair": page.input_value("#pair")}
        found = asked(page, address, given)
        assert shown(page, "mood").locator("p").inner_text() == str(found["mood"]["prediction"])
        assert shown(page, "same").locator("meter").count() == 1
        assert page.inner_text("#spoken") == ""  # nobody has asked for it
        page.keyboard.type("tea")
        assert page.input_value("#text") == "tea"


def test_cards_without_an_answer_are_as_high_as_their_title(browser, address):
    with opened(browser, address) as page:
        ready(page)
        page.fill("#text", "")
        page.wait_for_selector("html[data-state=ready]")
        assert {each.bounding_box()["height"] for each in page.locator(".answer").all()} == {0}


BLANKS = [chr(code) for code in range(1, 0x10000) if chr(code).isspace()]
NO_BLANKS = ["\ufeff", "\u180e", "\u200b", "\u2060"]


def test_words_are_those_that_the_service_has_tagged(browser, address):
    text = "".join(f"tea{each}" for each in (*BLANKS, *NO_BLANKS))
    with opened(browser, address) as page:
        ready(page)
        page.fill("#text", f"\x85\x1c{text} \x1f")
        answered(page)
        words = shown(page, "words", run=0).locator(".word")
        tags = words.locator(".tag").all_inner_texts()
        bare = [each.evaluate("word => word.firstChild.textContent") for each in words.all()]
        assert bare == page.input_value("#text").split()
        assert len(bare) == len(BLANKS) + 1
        found = asked(page, address, {"text": page.input_value("#text")})["words"]["prediction"]
        assert tags == [tag for tag in found if tag != "O"]


def test_a_plan_that_is_wider_than_the_page_is_scrolled_and_not_shrunk(browser, address):
    with opened(browser, address, width=320) as page:
        ready(page)
        box = page.get_by_role("region", name="Plan").first
        drawing = box.locator("svg")
        assert drawing.bounding_box()["width"] == float(drawing.get_attribute("width"))
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        box.evaluate("box => box.addEventListener('scroll', () => (box.dataset.scrolled = 'yes'))")
        box.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".drawing[data-scrolled]")
        assert fits(page, 320)


def test_the_page_is_used_by_keyboard_and_read_by_axe(browser, address):
    with opened(browser, address) as page:
        ready(page)
        assert page.evaluate("document.activeElement.id") == "text"
        page.keyboard.type("a good river")
        page.keyboard.press("Tab")
        page.keyboard.type("tea")
        answered(page)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        answered(page)
        assert page.input_value("#pair") == ""
        assert grave_faults(page) == []


def test_texts_are_shown_and_never_run(browser, address):
    with opened(browser, address) as page:
        ready(page)
        page.fill("#text", HOSTILE)
        answered(page)
        words = shown(page, "words").locator(".word")
        assert words.count() == len(HOSTILE.split())
        assert words.first.inner_text().startswith("<img")
        assert page.locator("main img").count() == 0


def test_answers_are_dimmed_once_the_service_is_gone(browser, address):
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    ready(page)
    page.fill("#text", "tea")
    answered(page)
    page.route("**/predict", lambda route: route.abort())
    page.fill("#text", "stone")
    page.wait_for_selector("html[data-state=refused]")
    assert "not responding" in page.inner_text("#status")
    assert page.inner_text("#spoken") == ""
    opacity = "getComputedStyle(document.querySelector('.answer')).opacity"
    assert float(page.evaluate(opacity)) < 0.5
    page.unroute("**/predict")
    page.fill("#text", "river")
    answered(page)
    assert float(page.evaluate(opacity)) == 1
    context.close()


def test_a_text_that_is_cut_is_told_as_such(browser, address):
    with opened(browser, address) as page:
        ready(page)
        page.fill("#text", "tea")
        answered(page)
        assert "20,000" not in page.inner_text("#status")
        page.fill("#text", "tea " * 5000)
        page.get_by_text("Only 20,000 characters of a text are read").wait_for()


def test_a_token_is_asked_for_once(browser, model):
    service = service_of(model)
    rules = Rules(token="secret")
    app = create_app(service, rules=rules, more=pages_of(service))
    with serving(app) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#token")
        assert not page.is_visible("#about")
        for given in ("wrong", "secret"):
            page.fill("#token", given)
            page.keyboard.press("Enter")
        ready(page)
        assert page.evaluate("document.activeElement.id") == "text"
        page.reload()
        ready(page)
        page.fill("#text", "tea")
        answered(page)
        context.close()
    service.close()
