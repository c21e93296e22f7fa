"""Our own findings on how many combinations must be seen, and which; no paper has these numbers.

Thresholds are those of `configs/coverage.py`: held-out R2 of 0.8 counts as composition.
"""

PAPER = ""

ROWS = {
    "addition": "Combinations needed for addition tables",
    "bumps": "Combinations needed for bumps",
    "sprites": "Combinations needed for a front and a back sprite",
    "teacher": "Combinations of modules needed to imitate a hypernetwork",
}

TABLES = ()

# Claims in words; `published.claims` describes the layout.
CLAIMS = {}
