"""HTML from values: every value that is not an `Html` is escaped."""

import html
import re
from collections.abc import Iterable


class Html(str):
    """Text that is markup already; `join` and `tag` escape every other text."""


def join(children: Iterable, between: str = "") -> Html:
    """Joins children; those that are not `Html` are escaped, None is left out."""
    return Html(between.join(_markup(child) for child in children if child is not None))


def _markup(child) -> str:
    return child if isinstance(child, Html) else html.escape(str(child), quote=True)


def tag(name: str, /, *children, **attributes) -> Html:
    """An element. `class_` and `data_sort` become class and data-sort; None and False are left out.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {key}")
        elif value is not None and value is not False:
            written.append(f' {key}="{_markup(value)}"')
    inner, start = join(children), f"<{name}{''.join(written)}"
    if name in VOID:
        return Html(f"{start}>")
    is_drawn = name in DRAWN and not inner
    return Html(f"{start}/>" if is_drawn else f"{start}>{inner}</{name}>")


VOID = {"img", "input", "link", "meta"}  # HTML elements without an end tag
DRAWN = {
    "circle",
    "line",
    "polyline",
    "rect",
}  # SVG elements; they close themselves if empty


# --- the subset of Markdown that READMEs and tables of families use -------------------------------

INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\([^)]*\)")


def inline(text: str) -> Html:
    """Code, bold and emphasis. Of a link only the text: the page works without other files."""
    parts, end = [], 0
    for match in INLINE.finditer(text):
        code, strong, emphasis, link = match.groups()
        parts.append(text[end : match.start()])
        if code:
            parts.append(tag("code", code))
        elif strong:
            parts.append(tag("strong", strong))
        elif emphasis:
            parts.append(tag("em", emphasis))
        else:
            parts.append(inline(link))
        end = match.end()
    return join([*parts, text[end:]])


def markdown(text: str, caption: str = "") -> Html:
    """Markdown tables and paragraphs as HTML; caption: of its tables."""
    blocks = [block.splitlines() for block in re.split(r"\n\s*\n", text.strip()) if block]
    return join(
        _markdown_table(lines, caption)
        if len(lines) > 1 and lines[0].startswith("|")
        else tag("p", inline(" ".join(lines)))
        for lines in blocks
    )


def _markdown_table(lines: list[str], caption: str) -> Html:
    head, marks, *body = map(_cells, lines)
    kinds = ["num" if mark.endswith(":") else None for mark in marks]
    return table(map(inline, head), (map(inline, cells) for cells in body), caption, kinds)


def table(heads: Iterable, rows: Iterable, caption: str, kinds: Iterable = ()) -> Html:
    """A table that scrolls by itself; kinds: the CSS class of each column, or None."""
    heads = list(heads)
    kinds = [*kinds, *[None] * len(heads)][: len(heads)]

    def cells(name, row, **attributes):
        return tag("tr", *(tag(name, c, class_=k, **attributes) for c, k in zip(row, kinds)))

    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", cells("th", heads, scope="col")),
            tag("tbody", *(cells("td", row) for row in rows)),
        ),
        class_="scroll",
    )


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [cell.replace("\\|", "|").strip() for cell in cells]
