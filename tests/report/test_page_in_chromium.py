"""The page as a reader meets it: opened in a headless Chromium, searched, linked to, copied."""

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
    with chromium.opened(tmp_path_factory.mktemp("profile"), seconds=180) as tab:
        yield tab


@pytest.fixture
def screen(tab):
    """A wide light screen, on which a test opens the page at an address of its own."""
    tab.look(1280, 900, "light")
    return tab


@pytest.fixture
def page(screen, address):
    screen.go(address)
    return screen


def is_quiet(tab, address) -> bool:
    """Nothing was complained of, and nothing asked for but the file and what is in it."""
    assert tab.complaints() == []
    return all(url.startswith((address, "data:")) for url in tab.requests())


def test_every_figure_loads_and_opens_large(page, address):
    page.ask("document.querySelectorAll('.about .all').forEach((button) => button.click())")
    page.ask("Promise.all([...document.images].map((image) => image.decode())).then(() => true)")
    figures = page.ask(
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
    assert len(figures) > 50
    for content, area, ratio, is_open in figures:
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
def standings_of_record():
    return standing.standings()


def test_filters_leave_the_claims_that_they_name(page, standings_of_record, address):
    total = len(CLAIMS)
    assert page.ask("document.querySelector('#count').textContent") == f"{total} claims"
    at_first = page.ask(
        """[...document.querySelectorAll('table.claims')].map(
          (table) => table.querySelectorAll('tbody tr:not([hidden])').length)"""
    )
    assert max(at_first) <= 12  # a few of each table
    for name in ("family", "kind", "form"):
        for value, n in collections.Counter(getattr(c, name) for c in CLAIMS.values()).items():
            choose(page, **{name: value})
            said = page.ask("document.querySelector('#count').textContent")
            assert said == f"{n} of {total} claims"
        choose(page, **{name: ""})
    choose(page, family="kernels")
    of_family = [standing for standing in standings_of_record if standing.claim.family == "kernels"]
    n = sum(standing.word == "match" for standing in of_family)
    press(page, "match")
    assert claims_shown(page) == n
    assert page.ask("document.querySelectorAll('section.paper:not([hidden])').length") == 1
    press(page, "no match")
    assert claims_shown(page) == n + sum(standing.word == "no match" for standing in of_family)
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
    def numbers() -> list[list]:
        """The numbers of each table, in its order."""
        cells = "[...table.querySelectorAll('tbody td:nth-child(3)')]"
        tables = "[...document.querySelectorAll('#paper-kernels .claims')]"
        return page.ask(
            f"{tables}.map((table) => {cells}.map((cell) => cell.dataset.sort ?? null))"
        )

    def click():
        page.ask("document.querySelector('#paper-kernels th.c-published button').click()")

    before = numbers()
    assert sum(map(len, before)) > 600 and len(before) == 3
    for direction, address_end in ((1, "?sort=theirs"), (-1, "?sort=-theirs")):
        click()
        assert page.ask("location.search") == address_end
        for column in numbers():
            known = [direction * float(n) for n in column if n is not None]
            assert known == sorted(known) and None not in column[: len(known)]
    click()
    assert numbers() == before and page.ask("location.search") == ""
    assert is_quiet(page, address)


# --- links ----------------------------------------------------------------------------------------


def open_at(tab, address, end):
    """Loads the page anew: a change of the fragment alone does not."""
    tab.go("about:blank")
    tab.go(address + end)


def shown_rows(page) -> list[str]:
    return page.ask(f"[...document.querySelectorAll({ROWS!r})].map((row) => row.id)")


SEEN = """((row) => {
  const { top, bottom } = row.getBoundingClientRect(), open = row.querySelector('details').open;
  return !row.hidden && open && bottom > 0 && top < innerHeight && row.matches(':target');
})(document.getElementById('NAME'))"""


@pytest.mark.parametrize("query", ("", "?family=bumps&verdict=match"))
def test_a_link_opens_its_claim(page, address, query):
    """Also one far down a list, and one that the filters of the address leave out."""
    name = [claim.id for claim in CLAIMS.values() if claim.family == "subnetworks"][-1]
    assert name not in shown_rows(page)
    open_at(page, address, f"{query}#{name}")
    assert page.ask(SEEN.replace("NAME", name))
    link = f"document.getElementById('{name}').querySelector('a.link').href"
    assert page.ask(link) == f"{address}{query}#{name}"
    assert is_quiet(page, address)


def test_every_claim_has_its_id_and_its_link(page, address):
    ids = "[...document.querySelectorAll('.claims tbody tr')].map((row) => row.id)"
    assert sorted(page.ask(ids)) == sorted(CLAIMS)
    hrefs = "[...document.querySelectorAll('.claims a.link')].map((link) => link.hash.slice(1))"
    assert sorted(page.ask(hrefs)) == sorted(CLAIMS)
    dead = """[...document.querySelectorAll('a[href^="#"]')].filter(
      (link) => !document.getElementById(link.hash.slice(1))).length"""
    assert page.ask(dead) == 0
    name = shown_rows(page)[-1]
    page.ask(f"document.getElementById('{name}').querySelector('a.link').click()")
    page.ask("new Promise((done) => setTimeout(done, 50))")
    assert page.ask(SEEN.replace("NAME", name))


def back(page, steps=1):
    page.ask(
        f"""new Promise((done) => {{
          addEventListener('popstate', () => setTimeout(done, 20), {{once: true}});
          history.go({-steps});
        }})"""
    )


def test_the_address_keeps_filters_and_goes_back(page, address):
    start = shown_rows(page)
    choose(page, family="kernels")
    of_family = shown_rows(page)
    press(page, "match")
    for letters in ("s", "sa", "sal", "salience"):
        choose(page, search=letters)
    page.ask("document.querySelector('th.c-ours button').click()")
    query = "?search=salience&family=kernels&verdict=match&sort=ours"
    assert page.ask("location.search") == query
    filtered = shown_rows(page)
    assert 0 < len(filtered) and filtered != of_family
    open_at(page, address, query)  # as somebody else who is sent the link
    assert shown_rows(page) == filtered
    assert page.ask("document.querySelector('#search').value") == "salience"
    assert page.ask("document.querySelector('#controls [data-word=match]').ariaPressed") == "true"
    assert page.ask("document.querySelector('th.c-ours').ariaSort") == "ascending"
    choose(page, search="")
    back(page)
    assert shown_rows(page) == filtered and page.ask("location.search") == query
    open_at(page, address, "")
    choose(page, family="kernels")
    for letters in ("s", "sa", "sal"):
        choose(page, search=letters)
    back(page)  # the search is one step, however many letters it has
    assert shown_rows(page) == of_family
    back(page)
    assert shown_rows(page) == start and page.ask("location.search") == ""
    assert is_quiet(page, address)


@pytest.mark.parametrize(
    "end", ("?family=nobody&kind=x&verdict=maybe&sort=names#no", "?search=#%E0%A4%A")
)
def test_an_address_of_nothing_shows_everything(screen, address, end):
    open_at(screen, address, end)
    assert screen.ask("document.querySelector('#count').textContent") == f"{len(CLAIMS)} claims"
    assert is_quiet(screen, address)


@pytest.mark.parametrize("has_clipboard", (True, False))
def test_a_command_is_copied(screen, address, has_clipboard):
    screen.call("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    screen.call("Emulation.setFocusEmulationEnabled", enabled=True)
    name = "vectors.compositional_orthogonal.r2_all"
    open_at(screen, address, f"#{name}")
    if not has_clipboard:
        refuse = "() => Promise.reject(new Error('no'))"
        screen.ask(f"navigator.clipboard.writeText = {refuse}; true")
    button = f"document.getElementById('{name}').querySelector('.copy')"
    x, y = screen.ask(f"(({{x, y}}) => [x + 4, y + 4])({button}.getBoundingClientRect())")
    is_copied = f"if ({button}.textContent === 'copied') done(true);"
    screen.ask(
        f"window.copied = new Promise((done) => setInterval(() => {{ {is_copied} }}, 20)); 1"
    )
    for kind in ("mousePressed", "mouseReleased"):
        screen.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    assert screen.ask("window.copied")
    entry = json.loads((report.RECORD / "vectors/compositional_orthogonal-paper.json").read_text())
    seeds = ",".join(map(str, entry["config"]["train"]["seeds"]))
    flag = "vectors:compositional_orthogonal,paper"
    command = f"python -m cgjax.main --config={flag} --config.train.seeds={seeds}"
    assert screen.ask("navigator.clipboard.readText()") == command
    assert is_quiet(screen, address)


# --- what it looks like ---------------------------------------------------------------------------


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


# [contrast, text] of every text, from the styles that the browser has computed.
CONTRAST = """(() => {
  const kept = (make) => {
    const known = new Map();
    return (key) => {
      if (!known.has(key)) known.set(key, make(key));
      return known.get(key);
    };
  };
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const read = kept((colour) => {  // any notation -> red, green, blue, alpha
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  });
  const over = ([r, g, b, a], back) => [r, g, b].map((value, i) => value * a + back[i] * (1 - a));
  const behind = kept((node) => {
    if (!node) return [255, 255, 255];
    const colour = read(getComputedStyle(node).backgroundColor);
    return colour[3] === 1 ? colour.slice(0, 3) : over(colour, behind(node.parentElement));
  });
  const opacity = kept((node) =>
    node ? +getComputedStyle(node).opacity * opacity(node.parentElement) : 1);
  const linear = (share) => share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (colour, node) => {
    const ground = behind(node), [r, g, b, a] = read(colour);
    const [x, y] = [light(over([r, g, b, a * opacity(node)], ground)), light(ground)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data, node = texts.currentNode.parentElement;
    if (!text.trim() || !node.checkVisibility() || node.closest('title')) continue;
    const style = getComputedStyle(node), isDrawn = node.namespaceURI.endsWith('svg');
    found.push([contrast(isDrawn ? style.fill : style.color, node), text]);
  }
  for (const field of document.querySelectorAll('input, select')) {
    const style = getComputedStyle(field, field.placeholder ? '::placeholder' : null);
    found.push([contrast(style.color, field), field.placeholder ?? field.id]);
  }
  for (const head of document.querySelectorAll('.claims th button'))
    found.push([contrast(getComputedStyle(head, '::after').color, head), 'arrow']);
  return [found.length, found.filter(([ratio]) => ratio < 4.5)];
})()"""


@pytest.mark.parametrize("theme", ("light", "dark"))
def test_every_text_has_contrast(screen, address, theme):
    """At least 4.5 to 1, computed for every text on the page, also what opens on a click."""
    screen.look(1280, 900, theme)
    open_at(screen, address, f"#{next(iter(CLAIMS))}")
    screen.ask(
        """document.querySelectorAll('details').forEach((one) => { one.open = true; });
        document.querySelectorAll('.all').forEach((button) => button.click());
        document.querySelector('.open').click()"""
    )
    n, low = screen.ask(CONTRAST)
    assert n > 20_000 and low == []
    for word in standing.WORDS:
        press(screen, word)
    n, low = screen.ask(CONTRAST)
    assert n > 10_000 and low == []


def test_low_contrast_is_noticed(tab, tmp_path):
    """The check above can fail."""
    (tmp_path / "pale.html").write_text(
        "<body style='background:#fff'><p style='color:#777'>pale<p style='color:#767676'>just"
        "<p style='opacity:.5'>faint<svg><text y=20 fill='#999'>drawn</text></svg>"
        "<p style='background:#0007'><b style='color:#666'>on grey</b>"
    )
    tab.look(1280, 900, "light")
    tab.go((tmp_path / "pale.html").as_uri())
    n, low = tab.ask(CONTRAST)
    assert n == 5 and {text for _, text in low} == {"pale", "faint", "drawn", "on grey"}


def test_the_page_is_described_to_machines(page):
    assert page.ask("document.querySelector('meta[name=description]').content.length") > 40
    assert page.ask("document.querySelector('link[rel=icon]').href.startsWith('data:image/svg')")
    assert page.ask("document.querySelectorAll('nav[aria-label] a').length") > 6
    page.ask("document.querySelector('.open').click()")
    name = page.ask("document.querySelector('dialog').getAttribute('aria-labelledby')")
    caption = page.ask("document.querySelector('.open + figcaption').textContent")
    assert page.ask(f"document.getElementById('{name}').textContent") == caption != ""
    tables = "[...document.querySelectorAll('table')]"
    assert page.ask(f"{tables}.filter((one) => !one.caption?.textContent).length") == 0
    unnamed = """[...document.querySelectorAll('button, a, input, select, [role=img]')].filter(
      (one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length)).length"""
    assert page.ask(unnamed) == 0


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
