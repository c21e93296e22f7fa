"""The page as a reader meets it: opened in a headless Chromium, searched, filtered, sorted."""

import collections
import json
import shutil

import chromium
import pytest
from front_door import finish

from cgjax import config as configs
from cgjax import report
from cgjax.published.claims import CLAIMS
from cgjax.report import page as pages
from cgjax.report import standing

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not chromium.PROGRAM, reason="chromium is not installed"),
]
ROWS = "table.claims tbody tr:not([hidden])"
HOSTILE = "<img src=x onerror=document.title='hacked'><script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page of the whole record, with a run of one's own that has an odd name."""
    folder = tmp_path_factory.mktemp("page")
    entry = json.loads((report.RECORD / "bumps" / "B8-paper.json").read_text())
    run = folder / "runs" / "mine"
    (run / "figures").mkdir(parents=True)
    shutil.copy(report.RECORD.parent / "figures" / "motivation.png", run / "figures" / "one.png")
    metrics = entry["metrics"] | {HOSTILE: next(iter(entry["metrics"].values()))}
    finish(run, configs.from_json(json.dumps(entry["config"])), metrics, devices=HOSTILE)
    return pages.write(folder / "out", runs=folder / "runs").as_uri()


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with chromium.opened(tmp_path_factory.mktemp("profile"), seconds=300) as tab:
        yield tab


@pytest.fixture
def page(tab, address):
    tab.look(1280, 900, "light")
    tab.go(address)
    return tab


def is_quiet(tab, address) -> bool:
    """Nothing was complained of, and nothing asked for but the file and what is in it."""
    assert tab.complaints() == []
    return all(url == address or url.startswith("data:") for url in tab.requests())


def test_every_figure_loads_and_opens_large(page, address):
    page.ask("document.querySelectorAll('.about .all').forEach((button) => button.click())")
    page.ask("Promise.all([...document.images].map((image) => image.decode())).then(() => true)")
    found = page.ask(
        """[...document.querySelectorAll('figure')].map((figure) => {
          const button = figure.querySelector('.open'), shown = button.firstElementChild;
          button.click();
          const large = document.querySelector('dialog[open] #large > :last-child');
          const [small, big] = [shown, large].map((one) => one.getBoundingClientRect());
          document.querySelector('#close').click();
          return [shown.naturalWidth ?? shown.childElementCount, small.width * small.height,
                  big.width / small.width, document.querySelector('dialog').open];
        })"""
    )
    assert len(found) > 50
    for content, area, ratio, is_open in found:
        assert content > 0 and area > 1000 and ratio > 1.2 and not is_open
    assert is_quiet(page, address)


def claims_shown(page) -> int:
    """How many, where the lists are long."""
    page.ask(
        """document.querySelectorAll('table.claims ~ .all').forEach((button) => {
          if (button.textContent.startsWith('all')) button.click();
        })"""
    )
    return page.ask(f"document.querySelectorAll({ROWS!r}).length")


def choose(page, **choices):
    """Fills in the form as a reader would."""
    for name, value in choices.items():
        page.ask(
            f"""{{
              const field = document.querySelector('#{name}');
              field.value = {json.dumps(value)};
              field.dispatchEvent(new Event('input', {{bubbles: true}}));
            }}"""
        )


def press(page, word):
    page.ask(f"document.querySelector('#controls [data-word=\"{word}\"]').click()")


@pytest.fixture(scope="module")
def found():
    return standing.standings()


def test_filters_leave_the_claims_that_they_name(page, found, address):
    total = len(CLAIMS)
    assert page.ask("document.querySelector('#count').textContent") == f"{total} claims"
    assert page.ask(f"document.querySelectorAll({ROWS!r}).length") < 100  # the first few of each
    for name in ("family", "kind", "form"):
        for value, n in collections.Counter(getattr(c, name) for c in CLAIMS.values()).items():
            choose(page, **{name: value})
            said = page.ask("document.querySelector('#count').textContent")
            assert said == f"{n} of {total} claims"
        choose(page, **{name: ""})
    choose(page, family="kernels")
    of_family = [one for one in found if one.claim.family == "kernels"]
    n = sum(one.word == "match" for one in of_family)
    press(page, "match")
    assert claims_shown(page) == n
    assert page.ask("document.querySelectorAll('section.paper:not([hidden])').length") == 1
    press(page, "no match")
    assert claims_shown(page) == n + sum(one.word == "no match" for one in of_family)
    assert is_quiet(page, address)


def test_search_finds_words_in_any_order(page, address):
    wanted = [c for c in CLAIMS.values() if c.row == "salience" and "step, depth 5" in c.metric]
    choose(page, search="SALIENCE  step,")
    some = claims_shown(page)
    assert len(wanted) <= some < 60
    choose(page, search="step, salience")
    assert claims_shown(page) == some
    choose(page, search="no such words <b>")
    assert claims_shown(page) == 0 and page.ask("!document.querySelector('#nothing').hidden")
    choose(page, search="")
    assert page.ask("document.querySelector('#nothing').hidden")
    page.ask("document.querySelector('#own').click()")
    assert 0 < claims_shown(page) < 40
    assert is_quiet(page, address)


def test_columns_sort_both_ways_and_back(page, address):
    def numbers():
        cells = "[...document.querySelectorAll('#paper-2 tbody td.c-published')]"
        return page.ask(f"{cells}.map((cell) => cell.dataset.sort ?? null)")

    def click():
        page.ask("document.querySelector('#paper-2 th.c-published button').click()")

    before = numbers()
    for direction in (1, -1):
        click()
        known = [direction * float(n) for n in numbers() if n is not None]
        assert known == sorted(known) and len(known) > 600
        assert None not in numbers()[: len(known)]
    click()
    assert numbers() == before
    assert is_quiet(page, address)


def test_both_themes(page, address):
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(colour)
    page.look(1280, 900, "dark")
    dark = page.ask(colour)
    assert light != dark
    page.ask("document.querySelector('#theme').click()")
    assert page.ask(colour) == light
    page.go(address)  # the choice is kept
    assert page.ask(colour) == light
    page.ask("localStorage.clear()")
    assert is_quiet(page, address)


@pytest.mark.parametrize("theme", ("light", "dark"))
def test_a_phone_shows_all_of_it(page, theme, address):
    page.look(390, 844, theme)
    page.go(address)
    assert page.ask("document.documentElement.scrollWidth") <= 390
    cells = f"[...document.querySelectorAll('{ROWS} td > *')]"
    assert page.ask(f"{cells}.filter((one) => one.getBoundingClientRect().right > 391).length") == 0
    assert is_quiet(page, address)


def test_names_of_a_run_run_nothing(page, address):
    assert page.ask("document.title") == "cgjax: claims and results"
    assert page.ask("document.querySelectorAll('[onerror], script:not(body > script)').length") == 0
    assert HOSTILE in page.ask("document.querySelector('#yours').textContent")
    assert is_quiet(page, address)


def test_the_browser_reports_what_a_page_asks_for(tab, tmp_path):
    """The checks above can fail: of another page they would."""
    (tmp_path / "other.html").write_text(
        "<img src='http://example.invalid/x.png'><script>x(</script>"
    )
    tab.go((tmp_path / "other.html").as_uri())
    assert any("example.invalid" in url for url in tab.requests())
    assert any("SyntaxError" in line for line in tab.complaints())
