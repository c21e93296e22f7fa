"""python -m cgjax.reproduce CLAIM [--run] [--size=SIZE]   its verdict, from the record or a run
python -m cgjax.reproduce --list [WORD ...]             every claim with its verdict"""

import argparse
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
from cgjax.published.claims import KINDS as KIND_WORDS
from cgjax.report import standing as standings

FOLDER = pathlib.Path("runs") / "reproduce"


@command
def main(argv=None):
    """Prints the verdict on one claim, or on all of them."""
    parser = Parser(
        prog="python -m cgjax.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: those of cgjax.main; 0 whether the claim stands or not.",
    )
    parser.add_argument("claim", nargs="?", help="name of the claim; --list prints all names")
    parser.add_argument("--list", nargs="*", metavar="WORD", help="print claims with these words")
    parser.add_argument("--run", action="store_true", help="run its rows, recorded or not")
    parser.add_argument("--size", choices=configs.SIZES, help="of the run; default: as published")
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
    standing = None if flags.run else recorded(claim, flags.size)
    if standing is None or standing.word == "not run":
        say(f"{'' if flags.run else 'not in the record: '}running {', '.join(claim.rows)}")
        standing = run(claim, flags.size or claim.size)
    for line in told(standing):
        say(line)


def find(name: str) -> Claim:
    """The claim of that name; the error for an unknown name suggests the nearest ones."""
    if name in CLAIMS:
        return CLAIMS[name]
    within = [known for known in CLAIMS if name.lower() in known]
    near = within or difflib.get_close_matches(name[:200], CLAIMS, n=3, cutoff=0.4)
    meant = f" (did you mean {' or '.join(near[:3])}?)" if near else ""
    raise BadInput(f"no claim is called {shown(name)}{meant}: --list prints them all")


def recorded(claim: Claim, size: str | None) -> standings.Standing:
    """The standing by the record, or by its runs of one size."""
    runs = [run for run in report.entries(claim.family) if size in (None, run["size"])]
    return standings.standing(claim, runs, standings.Scales())


def run(claim: Claim, size: str) -> standings.Standing:
    """Runs the rows of a claim, each in its own folder, and compares the results with the claim."""
    workdirs = []
    for row in claim.rows:
        names = [row, size, *(value for _, value in claim.overrides)]
        workdirs.append(FOLDER / claim.family / "-".join(names))
        changes = [f"--config.{key}={value}" for key, value in claim.overrides]
        flags = [f"--config={claim.family}:{row},{size}", f"--workdir={workdirs[-1]}"]
        if code := runner.main([*flags, *changes, "--no_figures"]):
            error = RunError(f"the run of {claim.family}:{row},{size} did not end")
            error.exit_code = code
            raise error
    entries = [report.read_run(workdir) for workdir in workdirs]
    return standings.standing(claim, entries, standings.Scales())


# --- text -----------------------------------------------------------------------------------------


def told(standing: standings.Standing) -> list[str]:
    """Lines that describe a standing: claim, paper's number, ours, comparison, verdict."""
    claim = standing.claim
    lines = [claim.id, claim.sentence, f"where       {claim.where}"]
    if claim.published:
        whose = "recomputed" if claim.kind == "recomputed" else "paper"
        lines.append(
            f"{whose:11} {standings.number(claim.number)}{standings.spread(claim.published)}"
        )
    elif len(standing.parts) < 2:  # several parts get a line each, below
        lines += [f"claimed     {standings.chain(claim, chain)}" for chain in claim.chains]
    if claim.caveat:
        lines.append(f"caveat      {claim.caveat}")
    if standing.word == "not run":
        return [*lines, "not run: no run has all of these numbers"]
    against = "" if standing.against is None else f", against {standings.number(standing.against)}"
    lines.append(
        f"ours        {standings.number(standing.ours)}{standings.seeds(standing)}{against}"
    )
    lines += [f"run         {standings.described(entry)}" for entry in standing.runs]
    if len(standing.parts) > 1:
        lines += [f"part        {standings.part(claim, *part)}" for part in standing.parts]
    return [
        *lines,
        f"difference  {standings.comparison(standing)}",
        f"verdict     {standing.word}",
    ]


def print_list(wanted: list[str]) -> None:
    """Prints one line per claim: verdict, name, paper's number, ours; then counts of each kind."""
    claims = [
        claim
        for claim in CLAIMS.values()
        if all(word.lower() in f"{claim.id} {claim.sentence}".lower() for word in wanted)
    ]
    if not claims:
        raise BadInput(f"no claim has the words {' '.join(wanted)}: --list alone prints them all")
    of_claims = standings.standings(claims=claims)
    width = max(len(claim.id) for claim in claims)
    for standing in of_claims:
        claim, ours = standing.claim, standings.number(standing.ours)
        if claim.published:
            theirs = standings.number(claim.number) + KINDS[claim.kind]
        elif standing.against is None:
            theirs = ""
        else:
            theirs = f"against {standings.number(standing.against)}"
        say(f"{standing.word:23}  {claim.id:{width}}  {theirs:>20}  {ours:>10}")
    for kind, n_of in standings.by_kind(of_claims).items():
        say(f"{KIND_WORDS[kind]}: {standings.tally(n_of)}; of {sum(n_of.values())} claims")


if __name__ == "__main__":
    sys.exit(main())
