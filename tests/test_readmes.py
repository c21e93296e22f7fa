"""Every README: its links and anchors exist, its commands parse."""

import importlib.util
import pathlib
import re
import shlex

import pytest

from cgjax import config as configs
from cgjax.main import parse

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    path
    for folder in (".", "cgjax", "configs", "launch")
    for path in sorted((ROOT / folder).glob("*.md" if folder == "." else "**/README.md"))
]


def anchors(path: pathlib.Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith("http"):
            assert link.startswith("https://"), link
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


def commands(page: pathlib.Path) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), flags=re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    separate = []
    for line in lines:
        words = shlex.split(line, comments=True)
        ends = [i for i, word in enumerate(words) if word in ("&&", "|")]
        separate += [words[i + 1 : j] for i, j in zip([-1, *ends], [*ends, len(words)])]
    return separate


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_parse(page):
    for words in commands(page):
        if "-m" in words and words[words.index("-m") + 1].startswith("cgjax"):
            module, *arguments = words[words.index("-m") + 1 :]
            assert importlib.util.find_spec(module), module
        elif words and words[0] == "cgjax":
            module, arguments = "cgjax.main", words[1:]
        else:
            continue
        if module != "cgjax.main" or "--coordinator" in arguments:
            continue
        flags, _, _ = parse([word for word in arguments if not word.startswith(("$", ">"))])
        if flags.config and "mylab" not in flags.config:
            assert configs.find(configs.split_flag(flags.config)[0]).is_file()
