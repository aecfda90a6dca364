"""A page as a reader gets it: sections, tables, texts."""

import re
from html.parser import HTMLParser

_VOID = {"meta", "rect", "link", "br"}


class Markup(HTMLParser):
    """`tables` by the id of the heading before them, rows of the texts of their cells; `text` without styles. Fails
    on elements that are not closed in their order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._open: list[str] = []
        self._heading = ""
        self._text: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], "elements that are not closed"

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self._text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "h2":
            self._heading = dict(attrs)["id"] or ""
        elif tag == "tr":
            self.tables.setdefault(self._heading, []).append([])
        elif tag in ("th", "td"):
            self.tables[self._heading][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> in the wrong place"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("style", "title"):
            return
        self._text.append(data)
        if "tr" in self._open and {"th", "td"} & set(self._open):
            row = self.tables[self._heading][-1]
            row[-1] = re.sub(r"\s+", " ", row[-1] + data).strip()
