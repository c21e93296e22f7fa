"""Markup from values: whatever is not markup already is escaped, wherever it comes from."""

import html
import re
from collections.abc import Iterable


class Html(str):
    """Text that is markup; every other text is escaped where it meets it."""


def join(children: Iterable, between: str = "") -> Html:
    """Children one after the other, those that are no markup escaped; None is left out."""
    return Html(between.join(_markup(child) for child in children if child is not None))


def _markup(child) -> str:
    return child if isinstance(child, Html) else html.escape(str(child), quote=True)


def tag(name: str, /, *children, **attributes) -> Html:
    """An element; `class_`, `data_sort` are written class, data-sort, None and False not at all.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    said = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            said.append(f" {key}")
        elif value is not None and value is not False:
            said.append(f' {key}="{_markup(value)}"')
    inner, words = join(children), "".join(said)
    if name in VOID:
        return Html(f"<{name}{words}>")
    is_drawn = name in DRAWN and not inner
    return Html(f"<{name}{words}/>" if is_drawn else f"<{name}{words}>{inner}</{name}>")


VOID = {"br", "img", "input", "meta"}
DRAWN = {"circle", "line", "rect"}


# --- the little Markdown that READMEs and tables of families use ----------------------------------

INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\([^)]*\)")


def inline(text: str) -> Html:
    """Code, bold and emphasis; of a link its words, since the page stands alone."""
    parts, end = [], 0
    for found in INLINE.finditer(text):
        code, strong, emphasis, link = found.groups()
        parts.append(text[end : found.start()])
        parts.append(
            tag("code", code) if code
            else tag("strong", strong) if strong
            else tag("em", emphasis) if emphasis
            else inline(link)
        )  # fmt: skip
        end = found.end()
    return join([*parts, text[end:]])


def markdown(text: str) -> Html:
    """Tables and paragraphs."""
    blocks = [block.splitlines() for block in re.split(r"\n\s*\n", text.strip()) if block]
    return join(
        _table(lines)
        if len(lines) > 1 and lines[0].startswith("|")
        else tag("p", inline(" ".join(lines)))
        for lines in blocks
    )


def _table(lines: list[str]) -> Html:
    head, marks, *body = map(_cells, lines)
    numeric = [mark.endswith(":") for mark in marks]

    def row(cells, name):
        kinds = ["num" if one else None for one in numeric]
        return tag("tr", *(tag(name, inline(c), class_=k) for c, k in zip(cells, kinds)))

    return tag(
        "div",
        tag(
            "table",
            tag("thead", row(head, "th")),
            tag("tbody", *(row(cells, "td") for cells in body)),
        ),
        class_="scroll",
    )


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [cell.replace("\\|", "|").strip() for cell in cells]
