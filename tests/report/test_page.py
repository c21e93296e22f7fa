"""The page: sources of its numbers, invalid input, and that it loads nothing from elsewhere."""

import ast
import base64
import contextlib
import hashlib
import html
import html.parser
import json
import pathlib
import re
import shlex
import shutil

import ml_collections
import pytest
from front_door import finish

from cgjax import config as configs
from cgjax import experiments, report
from cgjax.config.declare import leaves
from cgjax.config.overrides import override
from cgjax.core.errors import BadInput
from cgjax.published.claims import CLAIMS
from cgjax.published.results import summary
from cgjax.published.verdict import Verdict
from cgjax.report import charts, claim_rows, markup, page, section
from cgjax.report import standing as standings
from cgjax.report.__main__ import main
from cgjax.report.section import about, lead
from cgjax.report.standing import Standing

FAMILY = "bumps"  # one with numbers and orderings, and a small record
SOME = [claim for claim in CLAIMS.values() if claim.family == FAMILY]
NOBODY = page.Runs([], [])


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("record")
    (folder / FAMILY).mkdir()
    for name in (
        "B1-paper",
        "B8-paper",
        "B9-paper",
        "B11-paper",
        "B12-paper",
        "long-paper-background",
    ):
        shutil.copy(report.RECORD / FAMILY / f"{name}.json", folder / FAMILY)
    return folder


def theirs(row: dict) -> str:
    """The number that ours is compared with, whatever its kind."""
    return next(row[name] for name in ("published", "recomputed", "formula") if name in row)


def shown(record, claims=SOME, found=NOBODY) -> str:
    return page.document(page.gather(record, found.entries, claims), found)


class Rows(html.parser.HTMLParser):
    """{name of a claim: {column: text}}, and every element with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.row, self.cell, self.elements = {}, {}, None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag == "tr":
            self.row = {}
        elif tag == "td":
            self.cell = (attrs.get("class") or "").removeprefix("c-")

    def handle_data(self, data):
        if self.cell:
            self.row[self.cell] = self.row.get(self.cell, "") + data

    def handle_endtag(self, tag):
        if tag == "td":
            self.cell = None
        elif tag == "tr" and "claim" in self.row:
            # The details end with the claim's name, after the command that repeats it.
            name = re.search(r"name([a-z]+\.\S+)$", self.row["claim"])[1]
            self.rows[name] = self.row


@pytest.fixture(scope="module")
def plain(record):
    return shown(record)


def test_every_claim_has_a_row_with_all_that_is_known_of_it(plain):
    rows = Rows(plain).rows
    assert list(rows) and set(rows) == {claim.id for claim in SOME}
    claim = next(each for each in SOME if each.row == "B8" and each.published)
    row = rows[claim.id]
    assert f"{claim.number:.4g}" in row["published"]
    assert "1x NVIDIA H200, 2026-" in row["ours"] and "seed" in row["ours"]
    assert "--config=bumps:B8,paper" in row["claim"] and claim.where in row["claim"]
    absent = next(each for each in SOME if each.row == "B3")
    assert rows[absent.id]["verdict"] == "not run" and "difference" not in rows[absent.id]


def test_the_first_table_counts_the_claims_of_each_paper(record, plain):
    """Claims, match, no match, open, formulas and recomputed numbers, hours of the runs."""
    cells = re.findall(
        r"<td[^>]*>(.*?)</td>", plain[plain.index("<table") : plain.index("</table")]
    )
    found = standings.standings(record, SOME)
    words = [one.word for one in found if one.claim.kind not in section.APART]
    apart = [one.word for one in found if one.claim.kind in section.APART]
    match, no_match = words.count("match"), words.count("no match")
    open_ = len(words) - match - no_match
    assert cells[1:5] == [str(n) for n in (len(words), match, no_match, open_)] and apart
    assert cells[5] == f"{apart.count('match')} of {len(apart)}"
    hours = sum(entry["wall_s"] for entry in report.entries(FAMILY, record)) / 3600
    assert cells[6] == f"{hours:.1f} NVIDIA H200" and hours > 0.1 and len(cells) == 7


def test_a_mismatch_has_its_cause(tmp_path):
    claim = CLAIMS["bumps.decoders_fit_the_frame"]
    (tmp_path / FAMILY).mkdir()
    shutil.copy(report.RECORD / FAMILY / "B1-paper.json", tmp_path / FAMILY)
    row = Rows(shown(tmp_path, [claim])).rows[claim.id]
    assert row["verdict"] == "no match"
    assert f"Cause: {claim.cause}" in row["claim"]
    assert f"Experiment: {claim.experiment}" in row["claim"]


def test_every_number_of_ours_is_from_the_record(record, plain, tmp_path):
    before = Rows(plain).rows
    for path in (record / FAMILY).glob("*.json"):
        entry = json.loads(path.read_text())
        for metric in entry["metrics"].values():
            metric["values"] = [v if v is None else 1.7 * v + 3 for v in metric["values"]]
            changed = summary([v or 0 for v in metric["values"]], metric["seeds"], None)
            metric |= {name: changed[name] for name in ("ours", "sd")}
        (tmp_path / FAMILY).mkdir(exist_ok=True)
        (tmp_path / FAMILY / path.name).write_text(json.dumps(entry))
    text = shown(tmp_path)
    after = Rows(text).rows
    run = [name for name, row in before.items() if row["verdict"] != "not run"]
    assert len(run) > 15
    for name in run:
        assert before[name]["ours"] != after[name]["ours"]
        assert theirs(before[name]) == theirs(after[name])
    assert all(a != b for a, b in zip(figures(plain), figures(text), strict=True))


def test_every_number_of_theirs_is_from_published(record, plain):
    before, changed = Rows(plain).rows, []
    for claim in SOME:
        if claim.published:
            mean = 1.7 * claim.published["mean"] + 3
            claim = claim._replace(published=claim.published | {"mean": mean})
        changed.append(claim)
    after = Rows(shown(record, changed)).rows
    for claim in changed:
        differs = theirs(before[claim.id]) != theirs(after[claim.id])
        assert differs == bool(claim.published)
        assert before[claim.id]["ours"] == after[claim.id]["ours"]


def test_no_difference_is_shown_as_such(tmp_path):
    name = "kernels.lazy_networks_keep_their_features"
    (tmp_path / "kernels").mkdir()
    shutil.copy(report.RECORD / "kernels" / "addition_rich-paper.json", tmp_path / "kernels")
    row = Rows(shown(tmp_path, [CLAIMS[name]])).rows[name]
    assert row["published"] == "in words"
    assert " ≈ " in row["claim"] and "and 3 more" in row["claim"]
    assert "half-width" in row["claim"] and "tolerance 0.0" in row["claim"]
    assert row["verdict"] == "match"


def test_a_recomputed_number_is_not_shown_as_published(tmp_path):
    """Recomputed numbers and formulas have separate tables, and kinds are counted separately."""
    (tmp_path / "kernels").mkdir()
    for row in ("magnitudes", "leak"):
        shutil.copy(report.RECORD / "kernels" / f"{row}-default.json", tmp_path / "kernels")
    wanted = ("magnitudes", "leak")
    claims = [one for one in CLAIMS.values() if one.family == "kernels" and one.row in wanted]
    text = shown(tmp_path, claims)
    rows = Rows(text).rows
    headings = ("published", "recomputed", "formula")
    for claim in claims:
        expected = claim.kind if claim.kind in headings else "published"
        assert [name for name in headings if name in rows[claim.id]] == [expected]
        if claim.kind == "sentence":
            assert rows[claim.id]["published"] == "in words"
    counts = re.findall(r"<td>([^<]*)</td>" + r'<td class="num">([^<]*)</td>' * 2, text)
    assert ("formula or count", "5", "5") in counts
    assert ("recomputed, not the paper&#x27;s", "15", "15") in counts
    assert "All recomputed numbers by row" in text
    tables = re.findall(r"<h3>(\w+)[^<]*</h3>(<table.*?</table>)", text, re.DOTALL)
    kinds = {title: set(re.findall(r'data-kind="(\w+)"', rows)) for title, rows in tables}
    assert kinds == {
        "Claims": {"read", "sentence"},
        "Formulas": {"formula"},
        "Recomputed": {"recomputed"},
    }
    bars = re.findall(r'class="bar" role="img" aria-label="([^"]*)"', text)
    assert set(bars) == {"17 match"}  # the figure's bars and two sentences, without formulas


def figures(text):
    return re.findall(r'<svg[^>]*class="chart".*?</svg>', text)


def test_the_page_is_the_same_for_the_same_record(record, plain):
    assert shown(record) == plain


def test_nothing_is_loaded_from_anywhere(plain):
    page = Rows(plain)
    for tag, attrs in page.elements:
        assert tag not in ("iframe", "object", "embed", "base")
        for name in ("src", "href", "srcset", "data", "poster", "action", "xlink:href"):
            value = attrs.get(name) or "#"
            if tag == "a" and value.startswith("https://arxiv.org/abs/"):
                continue  # the reader follows it, or not
            assert value.startswith(("data:image/", "#")), value
        assert tag != "link" or attrs["rel"] == "icon"
    style = re.search(r"<style>(.*?)</style>", plain, re.DOTALL)[1]
    assert "url(" not in style and "@import" not in style
    assert set(re.findall(r"\w+://[^\"<]*", plain)) == {"https://arxiv.org/abs/2501.18797"}
    assert plain.isascii()  # else the digest were of other bytes than the browser's
    (script,) = re.findall(r"<script>(.*?)</script>", plain, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [a["content"] for _, a in page.elements if "Content-Security" in str(a)]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_no_family_is_named_in_the_report():
    names = set(experiments.FAMILIES)
    for path in pathlib.Path(report.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            words = node.value if isinstance(node, ast.Constant) else getattr(node, "module", "")
            parts = re.split(r"[.:/]", words) if isinstance(words, str) else ()
            assert not names & set(parts), f"{path.name}: {words}"


def test_every_claim_can_be_linked_to(plain):
    ids = [attrs["id"] for _, attrs in Rows(plain).elements if "id" in attrs]
    links = {attrs["href"] for tag, attrs in Rows(plain).elements if tag == "a"}
    assert len(ids) == len(set(ids)) and {claim.id for claim in SOME} <= set(ids)
    assert {f"#{claim.id}" for claim in SOME} <= links
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)


def test_a_section_has_the_answer_its_figure_and_then_the_claims(plain):
    of_paper = plain[plain.index(f'id="paper-{FAMILY}"') :]
    order = ("<strong>Answer.</strong>", "<figure>", "data:image/png", 'class="claims"')
    places = [of_paper.index(mark) for mark in order]
    assert places == sorted(places)


def test_the_page_links_to_what_is_built_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "gather", lambda *_: [])
    assert "api/index.html" not in page.write(tmp_path).read_text()
    for name in ("api/index.html", "notebooks/a study.html", "notebooks/no.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    links = [a["href"] for t, a in Rows(page.write(tmp_path).read_text()).elements if t == "a"]
    assert [one for one in links if one[0] != "#"] == ["api/index.html", "notebooks/a%20study.html"]


def as_main_reads(command: str):
    """The config of a command of `cgjax.main`."""
    flag, *others = shlex.split(command.removeprefix(f"{claim_rows.MAIN} --config="))
    options = dict(option.split("=", 1) for option in others)
    parts = options.pop("--parts", "")
    changed = {name.removeprefix("--config."): text for name, text in options.items()}
    config = configs.load(flag, changed)
    return configs.some_parts(config, parts) if parts else config


@pytest.mark.parametrize(
    "family",
    [
        "subnetworks",  # runs with other parts, lengths, data
        *(pytest.param(name, marks=pytest.mark.slow) for name in experiments.FAMILIES),
    ],
)
def test_commands_repeat_recorded_runs(family):
    """The command of a run gives its config, in the keys that the row still has."""
    for entry in report.entries(family):
        again = dict(leaves(as_main_reads(claim_rows.command(entry))))
        recorded = dict(leaves(configs.from_json(json.dumps(entry["config"]))))
        shared = again.keys() & recorded.keys()
        assert len(shared) > 3
        assert {name: again[name] for name in shared} == {n: recorded[n] for n in shared}


@pytest.mark.parametrize(
    "change", ({}, {"optim.lr": "0.5"}, {"parts.mlp_bump.optim.lr": "0.5", "train.seeds": "3,1"})
)
def test_a_command_keeps_changes_of_keys_parts_and_seeds(change):
    config = configs.load("bumps:B1", change)
    run = json.loads(configs.to_json(configs.some_parts(config, "mlp_bump,cnn_bump")))
    entry = {name: run[name] for name in ("family", "row", "size")} | {"config": run}
    assert json.loads(configs.to_json(as_main_reads(claim_rows.command(entry)))) == run
    assert len(claim_rows.changes(entry)) == 1 + len(change)


@pytest.mark.parametrize(
    "before, value",
    [
        (("a",), ("b c", "d,e")),
        ((), ("b",)),
        ((), ()),
        ((1.5,), (2.0, 1e-05)),
        ((0,), (3,)),
        (((0, 1),), ((2, 3), (4,))),
        (True, False),
        ("x", "it's $HOME"),
        (1, -3),
        (0.1, 1e-30),
    ],
)
def test_a_value_survives_the_command_line(before, value, monkeypatch):
    monkeypatch.setattr(claim_rows, "changes", lambda run: {"key": (before, value)})
    words = shlex.split(claim_rows.command({"family": "f", "row": "r", "size": "fast"}))
    config = ml_collections.ConfigDict({"key": before}).lock()
    override(config, "key", words[-1].removeprefix("--config.key="))
    assert config.key == value and type(config.key) is type(value)


# --- runs of one's own ----------------------------------------------------------------------------

GOOD = {"ours": 0.5, "sd": None, "values": [0.5], "seeds": [0], "paper": None, "paper_sd": None,
        "where": None}  # fmt: skip
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\ud800\x00é"


def workdir(folder, config=None, results=None, recorded="B8-paper"):
    """A workdir with a recorded run in it, or with what is given in its place."""
    entry = json.loads((report.RECORD / FAMILY / f"{recorded}.json").read_text())
    usual = {key: entry[key] for key in ("metrics", "wall_s", "devices")}
    settings = config if isinstance(config, str) else json.dumps(entry["config"] | (config or {}))
    numbers = usual if isinstance(results, str) else usual | (results or {})
    finish(folder, configs.from_json(json.dumps(entry["config"])), **numbers)
    with contextlib.suppress(ValueError):  # a config that cannot be read has no hash
        finish(folder, configs.from_json(settings), **numbers)
    (folder / "config.json").write_text(settings)
    if isinstance(results, str):
        (folder / "results.json").write_text(results)
    return folder


def test_runs_of_ones_own_stand_beside_the_record(record, tmp_path, plain):
    workdir(tmp_path / "deep" / "mine")
    (tmp_path / "deep" / "mine" / "figures").mkdir()
    shutil.copy(
        report.RECORD.parent / "figures" / "motivation.png",
        tmp_path / "deep" / "mine" / "figures" / "mine.png",
    )
    (tmp_path / "deep" / "mine" / "figures" / "torn.png").write_text("no png")
    workdir(tmp_path / "abandoned-1", results="{")
    user_runs = page.read(tmp_path)
    text = shown(record, found=user_runs)
    rows, before = Rows(text).rows, Rows(plain).rows
    yours = [name for name, row in rows.items() if "yours" in row["ours"]]
    assert yours and all(CLAIMS[name].row == "B8" for name in yours)
    assert all(rows[name]["ours"].startswith(before[name]["ours"]) for name in yours)
    assert 'alt="bumps:B8, mine"' in text and "torn.png" in text
    assert "Your runs" in text and "only claims with your runs" in text and not user_runs.unreadable
    assert "Your runs" not in plain


def test_a_sweep_has_its_values_and_curves(record, tmp_path):
    """Runs of one row that differ in a key: a table by its values, and a curve for each metric."""
    points = {"0.3": 3.0, "0.001": 1.0, "0.01": 2.0}
    for rate, shift in points.items():
        entry = json.loads((report.RECORD / FAMILY / "B8-paper.json").read_text())
        config = entry["config"] | {"optim": entry["config"]["optim"] | {"lr": float(rate)}}
        name, metric = next(iter(entry["metrics"].items()))
        metric |= {"ours": shift, "values": [shift - 0.1, shift + 0.1], "seeds": [0, 1]}
        constant = {"constant": GOOD}
        workdir(tmp_path / rate, config, {"metrics": {name: metric} | constant})
    found = page.read(tmp_path)
    ((swept, of_sweep, _),) = page.sweeps(found.entries)
    assert swept == ["optim.lr"] and len(of_sweep) == 3
    text = shown(record, found=found)
    mine = html.unescape(text[text.index('id="yours"') : text.index('class="paper"')])
    assert "Sweep of bumps:B8,paper over optim.lr" in mine
    cells = re.findall(r"<td>(0\.\w+)</td><td>(\w+) ± ", mine)
    assert cells == [("0.001", "1"), ("0.01", "2"), ("0.3", "3")]
    (line,) = re.findall(r'<polyline points="([^"]*)"', mine)
    places = [tuple(map(float, point.split(","))) for point in line.split()]
    assert places == sorted(places)  # from the least rate to the greatest
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)  # y goes down
    assert f"{name} by optim.lr" in mine and "constant by" not in mine
    assert "<code>optim.lr</code>: 0.001 → 0.3" in mine


def test_numbers_of_a_run_beside_a_formula_are_not_published(tmp_path):
    claim = next(c for c in CLAIMS.values() if c.family == "kernels" and c.kind == "formula")
    config = configs.load(f"kernels:{claim.row}")
    formula = GOOD | {"paper": 0.25, "paper_sd": 0.0}
    other = GOOD | {"recomputed": 0.75, "recomputed_sd": 0.0}
    finish(tmp_path / "mine", config, {claim.metric: formula, "b": other, "c": formula})
    text = page.runs_section(page.read(tmp_path))
    ends = re.findall(r'<td class="num">([^<]*)</td><td class="num">([^<]*)</td></tr>', text)
    assert ends == [("-", "0.25"), ("-", "0.75"), ("0.25", "-")]


def test_odd_values_and_numbers_of_a_sweep_are_shown(tmp_path):
    odd = (0.0, -1e99, 1e99, float("inf"), float("nan"), 10**400, HOSTILE, [HOSTILE, 1], True)
    for n, value in enumerate(odd):
        entry = json.loads((report.RECORD / FAMILY / "B8-paper.json").read_text())
        config = entry["config"] | {"optim": entry["config"]["optim"] | {"lr": value}}
        number = (0.0, -1e99, 1e99)[n % 3]
        metrics = {"a": GOOD | {"ours": number, "values": [number, -number], "seeds": [0, 1]}}
        metrics |= {"b": GOOD | {"ours": n, "values": [], "seeds": []}}
        workdir(tmp_path / str(n), config, {"metrics": metrics})
    found = page.read(tmp_path)
    text = page.document([], found)
    assert len(found.entries) + len(found.unreadable) == len(odd) and len(found.entries) > 5
    assert "Sweep of bumps:B8,paper over optim.lr" in text and "<script>alert" not in text


def test_a_sweep_over_words_is_drawn_by_label(tmp_path):
    for code, shift in (("onehot", 1.0), ("bump", 2.0)):
        entry = json.loads((report.RECORD / FAMILY / "B8-paper.json").read_text())
        config = entry["config"] | {"data": entry["config"]["data"] | {"encoding": code}}
        metric = next(iter(entry["metrics"].values())) | {"ours": shift, "values": [shift]}
        workdir(tmp_path / code, config, {"metrics": {"a": metric | {"seeds": [0]}}})
    drawn = page.runs_section(page.read(tmp_path))
    assert "data.encoding=onehot" in drawn and "<polyline" not in drawn
    assert page.sweeps(page.read(tmp_path / "bump").entries) == []


def test_names_in_a_run_are_shown_as_they_are(record, tmp_path):
    metrics = {"metrics": {HOSTILE: GOOD | {"seeds": [HOSTILE]}}, "devices": HOSTILE}
    workdir(tmp_path / "mine", None, metrics | {"commit": {"a": [HOSTILE]}})
    text = shown(record, found=page.read(tmp_path))
    tags = [tag for tag, attrs in Rows(text).elements if tag == "script" or "onerror" in attrs]
    assert text.isascii()
    assert tags == ["script"] and "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    "config, results",
    [
        (None, "{"),
        (None, "[1]"),
        (None, {"metrics": [1]}),
        (None, {"metrics": {"a": {"ours": 1}}}),
        (None, {"metrics": {"a": GOOD | {"values": ["x"]}}}),
        (None, {"metrics": {"a": GOOD | {"seeds": [[1]]}}}),
        (None, {"metrics": {"a": GOOD | {"ours": 10**400}}}),
        (None, {"metrics": {"a": GOOD | {"sd": 1e200}}}),
        (None, {"metrics": {"a": GOOD | {"ours": float("nan")}}}),
        ("", {}),
        ({"size": "huge"}, {}),
        ({"row": HOSTILE}, {}),
        ({"row": "../../../x"}, {}),
        ({"family": "../x"}, {}),
        ({"parts": {"../x": {}}}, {}),
        ({"family": 3}, {}),
        ({"train": 3}, {}),
        ({"train": {"seeds": 3}}, {}),
        ({"a.b": 3}, {}),
        ({"parts": {"a": 3}}, {}),
    ],
)
def test_a_garbled_run_is_named_and_left_out(config, results, tmp_path):
    workdir(tmp_path / "garbled", config, results)
    found = page.read(tmp_path)
    assert not found.entries and len(found.unreadable) == 1
    (line,) = found.unreadable
    assert "garbled" in line and "\n" not in line


def test_odd_numbers_of_a_known_metric_are_shown(record, tmp_path):
    """Whatever passes for a run can be judged and drawn."""
    name = next(claim.metric for claim in SOME if claim.row == "B8" and claim.published)
    for n, odd in enumerate(
        (
            {"values": [], "seeds": []},
            {"values": [None] * 20, "seeds": []},
            {"ours": -1e99, "values": [-1e99, 1e99], "seeds": [0, 1]},
            {"ours": 0.0, "values": [0.0]},
            {"ours": 10**30, "values": [10**30]},
        )
    ):
        workdir(tmp_path / str(n) / "mine", {}, {"metrics": {name: GOOD | odd}})
        found = page.read(tmp_path / str(n))
        assert "yours" in shown(record, found=found) and not found.unreadable


def test_bad_commands_end_with_one_line(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    out = f"--out={tmp_path / 'out'}"
    for argv, said in (
        ([str(tmp_path / "nowhere"), out], "is not a folder"),
        ([str(tmp_path / "file"), out], "is not a folder"),
        ([str(tmp_path / "empty"), out], "holds no finished run"),
        ([str(tmp_path / "empty")], "--out=<folder>"),
        ([f"--record={tmp_path / 'empty'}", out], "holds no recorded run"),
    ):
        assert main(argv) == 2
        captured = capsys.readouterr()
        assert said in captured.err and captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_page_that_cannot_be_written_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "gather", lambda *_: [])
    (tmp_path / "file").write_text("")
    assert main([f"--out={tmp_path / 'file'}"]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert main([f"--out={tmp_path / 'new' / 'folder'}"]) == 0
    assert "index.html" in capsys.readouterr().out
    assert (tmp_path / "new" / "folder" / "index.html").read_text().startswith("<!doctype html>")


# --- markup, charts, families ---------------------------------------------------------------------


def test_markup_escapes_what_is_no_markup():
    made = markup.tag("p", "<b>", markup.tag("i", "&"), title='"x"', hidden=True, class_=None)
    assert made == '<p title="&quot;x&quot;" hidden>&lt;b&gt;<i>&amp;</i></p>'
    assert markup.inline("a `<x>` [l](u) **b**") == (
        "a <code>&lt;x&gt;</code> l <strong>b</strong>"
    )
    table = markup.markdown("| a | b |\n|---|---:|\n| <i> | 1\\|2 |\n\na <b>\nnote\n")
    assert '<td>&lt;i&gt;</td><td class="num">1|2</td>' in table
    assert table.endswith("</div><p>a &lt;b&gt; note</p>")


@pytest.mark.parametrize("difference", (-0.2, -0.04, 0.0, 0.04, 0.2))
def test_a_strip_has_the_point_within_the_band_if_the_difference_is(difference):
    drawn = charts.strip(Standing(None, "match", verdict=Verdict("match", difference, 0.01, 0.05)))
    x, width = (
        float(re.search(r'<rect x="([\d.]+)" .*?width="([\d.]+)"', drawn)[i]) for i in (1, 2)
    )
    at = float(re.search(r'cx="([\d.]+)"', drawn)[1])
    assert (x <= at <= x + width) == (abs(difference) <= 0.05)
    assert (at > 60) == (difference > 0)


def test_panels_keep_the_order_of_numbers():
    def line(ours, mean):
        claim = next(one for one in SOME if one.published)
        claim = claim._replace(published={"mean": mean, "sd": 0.0, "spread": "none"})
        return charts.Line("a", Standing(claim, "match", ours, values=(ours, ours), seeds=(0, 1)))

    for numbers in ((0.001, 0.1, 5.0), (-1.0, 0.0, 2.0), (3.0, 3.0, 3.0), (0.0, 0.0, 0.0)):
        drawn = charts.panel([line(ours, 0.01) for ours in numbers], "")
        places = [float(place) for place in re.findall(r'<circle cx="([\d.]+)"', drawn)]
        ranks = [sorted(set(numbers)).index(number) for number in numbers]
        assert [sorted(set(places)).index(place) for place in places] == ranks
        assert all(60 < place <= charts.WIDTH for place in places)


def test_families_tell_of_themselves():
    for name in (FAMILY, "support"):
        found = about(name)
        assert found.title and len(found.lead) > 100 and "\n" not in found.lead
        assert found.figures
    assert about(FAMILY).answer.startswith("**Answer.**") and "(#" not in about(FAMILY).answer
    assert lead("# T\n\nFirst\n([below](#x)), and.\n") == "First, and."
    assert lead("# T\n\nFirst\nline.\n\n**What it asks.** More.\n") == "**What it asks.** More."
    assert lead("# T\n\n```sh\ncode\n```\n\nFirst\nline.") == "First line."
    assert lead("# T\n") == ""


def test_a_record_without_runs_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no recorded run"):
        page.write(tmp_path / "out", tmp_path / "nothing")
