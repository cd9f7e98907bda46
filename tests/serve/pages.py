"""Pages of the service, opened by a browser: a server in a thread, and what a page did wrong."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from axe_playwright_python.sync_playwright import Axe

GRAVE = ("serious", "critical")


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of an application."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # whoever asks before the server has started waits
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@contextmanager
def opened(browser: Any, address: str, *, width: int = 1200, dark: bool = False) -> Iterator[Any]:
    """A page that complains about nothing and asks nobody else."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(60_000)
    page.goto(address)
    yield page
    origin = "/".join(address.split("/")[:3])
    foreign = [url for url in asked if not url.startswith((f"{origin}/", "data:"))]
    context.close()
    assert said == []
    assert foreign == []


def grave_faults(page: Any) -> list[str]:
    """What axe-core finds that would keep somebody from using the page."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes']}" for each in found if each["impact"] in GRAVE]


def fits(page: Any, width: int) -> bool:
    """Nothing has to be scrolled sideways."""
    needed: int = page.evaluate("document.documentElement.scrollWidth")
    return needed <= width
