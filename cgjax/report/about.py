"""What a family says of itself, read from the README beside its front door."""

import pathlib
import re
import sys
from typing import NamedTuple

from cgjax import experiments

IMAGE = re.compile(r"^!\[([^\]]*)\]\(([^)]+\.png)\)$", re.MULTILINE)


class About(NamedTuple):
    title: str  # of the README's first line
    lead: str  # what is asked, Markdown
    figures: tuple = ()  # (caption, path) of each image it shows


def about(name: str) -> About:
    """Title, lead and figures of a family; of one without a README its name alone."""
    module = experiments.family(name)
    readme = pathlib.Path(sys.modules[module.__name__].__file__).parent / "README.md"
    if not readme.is_file():
        return About(name, "")
    text = readme.read_text()
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    shown = ((caption, (readme.parent / path).resolve()) for caption, path in IMAGE.findall(text))
    figures = tuple((caption, path) for caption, path in shown if path.is_file())
    return About(title[1] if title else name, lead(text), figures)


def lead(text: str) -> str:
    """The paragraph that opens with **What, as in "**What it asks.**", else the first one."""
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    prose = [block for block in blocks if re.match(r"\*\*|[^#|`!\-\s]", block)]
    return next((block for block in prose if block.startswith("**What")), prose[0] if prose else "")
