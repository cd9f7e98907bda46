"""A page as a browser would read it, as far as tests need that."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

HOSTILE = "<script>alert(1)<"
"""A run's name, and a text; a slash cannot be part of a name."""
VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list["Element"]:
        """Elements in the order of the page."""
        found = [self] if not tags or self.tag in tags else []
        return found + [each for child in self.children for each in child.all(*tags)]

    @property
    def words(self) -> str:
        """All text inside, without runs of blanks."""
        parts = [self.text, *(child.words for child in self.children)]
        return " ".join(" ".join(parts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("page", {})]

    def handle_starttag(self, tag, attrs):
        made = Element(tag, dict(attrs))
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.open[-1].text += data


def read_page(path: Path) -> Element:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    (page,) = reader.open
    return page


def charts_of(page: Element) -> dict:
    """The specifications and data of the charts."""
    (found,) = [s for s in page.all("script") if s.attributes.get("id") == "charts"]
    return json.loads(found.text)
