"""python -m cgjax.reproduce CLAIM [--run] [--size=SIZE]   does it stand? From the record, or a run
python -m cgjax.reproduce --list [WORD ...]             every claim with its standing"""

import argparse
import collections
import difflib
import pathlib
import sys

from cgjax import config as configs
from cgjax import main as runner
from cgjax import report
from cgjax.config.flags import Parser
from cgjax.core.errors import BadInput, RunError, command, shown
from cgjax.core.logging import say
from cgjax.published import KINDS
from cgjax.published.claims import CLAIMS, Claim
from cgjax.report import standing as standings

FOLDER = pathlib.Path("runs") / "reproduce"


@command
def main(argv=None):
    """Says how one claim stands, or all of them."""
    parser = Parser(
        prog="python -m cgjax.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: those of cgjax.main; 0 whether the claim stands or not.",
    )
    parser.add_argument("claim", nargs="?", help="its name; --list prints them")
    parser.add_argument("--list", nargs="*", metavar="WORD", help="claims that have these words")
    parser.add_argument("--run", action="store_true", help="run its rows, recorded or not")
    parser.add_argument("--size", choices=configs.SIZES, help="of the run; without it as published")
    flags = parser.parse(argv)
    runner.set_up_output()
    if flags.list is not None:
        if flags.claim or flags.run or flags.size:
            raise BadInput("--list prints claims and runs nothing: give it alone, or with words")
        print_list(flags.list)
        return
    if not flags.claim:
        raise BadInput("no claim is named: --list prints them all")
    claim = find(flags.claim)
    found = None if flags.run else recorded(claim, flags.size)
    if found is None or found.word == "not run":
        say(f"{'' if flags.run else 'not in the record: '}running {', '.join(claim.rows)}")
        found = run(claim, flags.size or claim.size)
    for line in told(found):
        say(line)


def find(name: str) -> Claim:
    """The claim of that name; refuses others with the nearest ones."""
    if name in CLAIMS:
        return CLAIMS[name]
    within = [known for known in CLAIMS if name.lower() in known]
    near = within or difflib.get_close_matches(name[:200], CLAIMS, n=3, cutoff=0.4)
    meant = f" (did you mean {' or '.join(near[:3])}?)" if near else ""
    raise BadInput(f"no claim is called {shown(name)}{meant}: --list prints them all")


def recorded(claim: Claim, size: str | None) -> standings.Standing:
    """What the record says, or as much of it as was run at a size."""
    runs = [run for run in report.entries(claim.family) if size in (None, run["size"])]
    return standings.standing(claim, runs, standings.Scales())


def run(claim: Claim, size: str) -> standings.Standing:
    """Runs the rows behind a claim, each in a folder of its own, and judges what came out."""
    workdirs = []
    for row in claim.rows:
        words = [row, size, *(value for _, value in claim.overrides)]
        workdirs.append(FOLDER / claim.family / "-".join(words))
        changes = [f"--config.{key}={value}" for key, value in claim.overrides]
        flags = [f"--config={claim.family}:{row},{size}", f"--workdir={workdirs[-1]}"]
        if code := runner.main([*flags, *changes, "--no_figures"]):
            error = RunError(f"the run of {claim.family}:{row},{size} did not end")
            error.exit_code = code
            raise error
    entries = [standings.entry_of(workdir) for workdir in workdirs]
    return standings.standing(claim, entries, standings.Scales())


# --- words ----------------------------------------------------------------------------------------


def told(found: standings.Standing) -> list[str]:
    """A standing in lines: the claim, theirs, ours, the comparison, the word."""
    claim = found.claim
    lines = [claim.id, claim.sentence, f"where       {claim.where}"]
    if claim.published:
        whose = "recomputed" if claim.source == "recomputed" else "paper"
        lines.append(
            f"{whose:11} {standings.number(claim.number)}{standings.spread(claim.published)}"
        )
    elif len(found.parts) < 2:  # else each is a line with its numbers
        lines += [f"claimed     {standings.chain(claim, chain)}" for chain in claim.chains]
    if claim.caveat:
        lines.append(f"caveat      {claim.caveat}")
    if found.word == "not run":
        return [*lines, "not run: no run has all of these numbers"]
    against = "" if found.against is None else f", against {standings.number(found.against)}"
    lines.append(f"ours        {standings.number(found.ours)}{standings.seeds(found)}{against}")
    lines += [f"run         {standings.described(one)}" for one in found.runs]
    if len(found.parts) > 1:
        lines += [f"part        {standings.part(claim, *part)}" for part in found.parts]
    return [*lines, f"difference  {standings.comparison(found)}", f"verdict     {found.word}"]


def print_list(wanted: list[str]) -> None:
    """One line per claim: its standing, its name, theirs, ours; then how many stand how."""
    claims = [
        claim
        for claim in CLAIMS.values()
        if all(word.lower() in f"{claim.id} {claim.sentence}".lower() for word in wanted)
    ]
    if not claims:
        raise BadInput(f"no claim has the words {' '.join(wanted)}: --list alone prints them all")
    found = standings.standings(claims=claims)
    width = max(len(claim.id) for claim in claims)
    for one in found:
        if one.claim.published:
            theirs = standings.number(one.claim.number) + KINDS[one.claim.source]
        else:
            theirs = "" if one.against is None else f"against {standings.number(one.against)}"
        say(
            f"{one.word:23}  {one.claim.id:{width}}  {theirs:>20}  {standings.number(one.ours):>10}"
        )
    counts = collections.Counter(one.word for one in found)
    say(", ".join(f"{counts[word]} {word}" for word in standings.WORDS if counts[word])
        + f"; of {len(found)} claims")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
