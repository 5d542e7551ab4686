"""Goal: the Replay page shows two runs as kvrail's own files have them, each figure with its verdict; a file that is
none is refused whole, with a sentence; and no byte of a file leaves the browser.
Method: files of the real tools, and of them damaged ones, in headless Chromium.
usage: replay.py UI_GENERATE
"""
import json
import os
import sys

from runs import choose, make_runs, read, tool
from scene import Scene, check, run, skip_without_browser

FIGURES = ("p50", "p95", "p99", "mean")
LARGEST = 16 * 1024 * 1024
ALERTS = "[...document.querySelectorAll('#opener [role=alert]')].map((one) => one.textContent)"
TABLES = "document.querySelectorAll('table.changes').length"
ROWS = """(() => [...document.querySelectorAll('.comparison')].map((one) => Object.fromEntries(
  [...one.querySelectorAll('table.changes tr[data-figure]')].map((row) =>
    [row.dataset.figure, [...row.querySelectorAll('td')].map((cell) => cell.textContent)]))))()"""
shared = {}


def path(name):
    return os.path.join(shared["folder"], name)


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path(name)


def show(scene):
    """The one tab, without files."""
    if "page" not in shared:
        shared["folder"] = make_runs(os.path.join(scene.work, "runs"))
        shared["page"] = scene.browser.page("about:blank?")
    shared["page"].open(f"{scene.scheduler.base}#/replay")
    shared["page"].until("document.getElementById('explained') !== null")
    return shared["page"]


def sentence(page):
    found = page.until(f"{ALERTS}.length > 0 && {ALERTS}", what="no sentence about a wrong file")
    check(len(found) == 1, f"more than one sentence: {found}")
    return found[0]


def amount(text):
    """ "−1,234.50 ms" as a number, and its unit."""
    value, unit = text.replace("−", "-").replace(",", "").split(" ")
    return float(value), unit


def near(text, value, unit):
    shown, has = amount(text)
    return has == unit and abs(shown - value) <= max(0.0051 if unit == "ms" else 0.051, abs(value) * 1e-9 if unit == "ms" else abs(value) / 1900)


# ---- what is shown ---------------------------------------------------------------------------------------------


def an_empty_page_says_what_makes_a_file(scene):
    page = show(scene)
    text = page.text("main")
    for needed in ("kvrail compare a.kvtrace b.kvtrace --json", "kvrail trace export --to summary", "nothing of them is sent"):
        check(needed in text, f"the empty page has no '{needed}'")
    check(page.run("document.getElementById('range').disabled"), "a range of time can be chosen")
    page.key("1")
    page.until("location.hash.startsWith('#/overview')")
    page.key("7")
    page.until("location.hash.startsWith('#/replay') && document.title === 'Replay · kvrail'")


def same_as_file(rows, report):
    check(len(rows) == 4 * len(report["time_ms"]) == 28, f"{len(rows)} figures are shown")
    for time, figures in report["time_ms"].items():
        for name in FIGURES:
            one, cells = figures[name], rows[f"{name}_{time}"]
            verdict, a, b, change, share, range_of_draws = cells
            low, high = range_of_draws.split(" to ")
            for text, value in ((a, one["a"]), (b, one["b"]), (change, one["change"]), (low, one["low"]), (high, one["high"])):
                check(near(text, value, "ms"), f"{name} of {time}: {value} is shown as {text}")
            check(share == "–" if one["a"] == 0 else near(share, 100 * one["change"] / one["a"], "%"), f"{name} of {time}: {share}")
            word = "not distinguishable" if not one["differs"] else "longer" if one["change"] > 0 else "shorter"
            check(verdict == word, f"{name} of {time}: {verdict}, not {word}")


def a_comparison_is_shown_as_the_file_has_it(scene):
    page = show(scene)
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 1")
    report = read(shared["folder"], "changes.json")
    rows = page.run(ROWS)[0]
    same_as_file(rows, report)
    words = {cells[0] for cells in rows.values()}
    check(words == {"longer", "not distinguishable"}, f"the verdicts are {words}")
    check(page.run("[...document.querySelectorAll('.changes .state')].every((one) => one.querySelector('svg > *') !== null)"), "a verdict has no shape")
    check(page.text(".verdict.said") == report["verdict"], "the file's verdict is not shown")
    runs = page.run("[...document.querySelectorAll('table.runs tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
    a, b, matched = report["a"], report["b"], report["matched"]
    check(runs == [["A", "a.kvtrace", f"{a['transfers']:,}", f"{matched:,}", f"{a['transfers'] - matched:,}", f"{a['outcomes']['done']:,}"],
                   ["B", "b.kvtrace", f"{b['transfers']:,}", f"{matched:,}", f"{b['transfers'] - matched:,}", f"{b['outcomes']['done']:,}"]], f"the runs are {runs}")
    sentences = page.run("[...document.querySelectorAll('.sentences li')].map((one) => one.textContent)")
    check(sentences == report["options"] + report["rails"] and len(sentences) > 4, f"options and rails are {sentences}")
    check(page.run("document.querySelectorAll('.spreads svg').length") == 7, "not every time has a chart")
    check(page.run("document.querySelectorAll('.spreads .curve').length") == 14, "not every time has two curves")
    page.click(".distributions details.data summary")
    page.until("document.querySelectorAll('.distributions tbody tr').length === 7 * (3 + 21)")
    half = page.run("[...document.querySelectorAll('.distributions tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)).filter((cells) => cells[1] === '50 % of transfers')")
    curves = [figures["curve"] for figures in report["time_ms"].values()]
    check([(near(cells[2], curve["a"][10], "ms"), near(cells[3], curve["b"][10], "ms")) for cells, curve in zip(half, curves)] == 7 * [(True, True)], f"halves of the curves are {half}")
    check(page.run("[...document.querySelectorAll('.distributions td:nth-child(n + 3)')].every((one) => one.textContent.endsWith(' ms'))"), "data without a unit")


def a_file_of_before_has_no_curves(scene):
    report = read(shared["folder"], "changes.json")
    for figures in report["time_ms"].values():
        del figures["curve"]
    page = show(scene)
    choose(page, write("before.json", json.dumps(report)))
    page.until(f"{TABLES} === 1")
    check(page.run("document.querySelectorAll('.spreads svg').length") == 7 and page.run("document.querySelectorAll('.curve').length") == 0, "curves out of nothing")
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 2")
    page.click(".files button")
    page.until(f"{TABLES} === 1")


def a_file_outlasts_another_page(scene):
    page = shared["page"]
    page.click('nav a[href^="#/errors"]')
    page.until("document.getElementById('errors') !== null")
    page.click('nav a[href^="#/replay"]')
    page.until(f"{TABLES} === 1")


def two_comparisons_stand_beside_each_other(scene):
    page = show(scene)
    choose(page, path("same.json"))
    page.until(f"{TABLES} === 1")
    check(page.text(".verdict.said") == "A and B are not distinguishable", page.text(".verdict.said"))
    same_as_file(page.run(ROWS)[0], read(shared["folder"], "same.json"))
    check({cells[0] for cells in page.run(ROWS)[0].values()} == {"not distinguishable"}, "equal runs are judged to differ")
    choose(page, path("back.json"))
    page.until(f"{TABLES} === 2")
    rows = page.run(ROWS)
    same_as_file(rows[1], read(shared["folder"], "back.json"))
    check("shorter" in {cells[0] for cells in rows[1].values()}, "nothing is shorter the other way round")
    # All but the range of draws is seen without scrolling.
    seen = page.run("[...document.querySelectorAll('.changes')].every((one) => one.rows[0].cells[6].getBoundingClientRect().right <= one.parentElement.getBoundingClientRect().right)")
    check(seen, "two comparisons are too wide")
    left, right = page.run("[...document.querySelectorAll('.beside > section')].map((one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().top])")
    check(left[0] + 500 < right[0] and left[1] == right[1], f"they stand at {left} and {right}")
    choose(page, path("changes.json"))  # there is no room for a third: it is alone then
    page.until(f"{TABLES} === 1 && document.querySelector('.files strong').textContent === 'changes.json'")


def two_summaries_are_not_judged(scene):
    page = show(scene)
    choose(page, path("a.summary.json"))
    page.until("document.getElementById('one-more') !== null")
    check(page.run(TABLES) == 0, "one summary is shown as two runs")
    choose(page, path("b.summary.json"))
    page.until(f"{TABLES} === 1")
    a, b = read(shared["folder"], "a.summary.json"), read(shared["folder"], "b.summary.json")

    def check_rows(one, other):
        rows = page.run(ROWS)[0]
        check(len(rows) == 28, f"{len(rows)} figures")
        for time in one["time_ms"]:
            for name in FIGURES:
                cells, values = rows[f"{name}_{time}"], (one["time_ms"][time][name], other["time_ms"][time][name])
                for text, value in zip(cells[1:], (*values, values[1] - values[0])):
                    check(near(text, value, "ms"), f"{name} of {time}: {value} is shown as {text}")
                check(cells[0] == "not judged", f"a summary's verdict is {cells[0]}")

    check_rows(a, b)
    page.click("#exchange")
    page.until("document.querySelector('.files strong').textContent === 'b.summary.json'")
    check_rows(b, a)
    check(page.run("document.querySelectorAll('.distributions details.data').length") == 1 and page.run("document.querySelectorAll('.spreads circle').length") == 35, "not all percentiles are drawn")


def few_and_renamed_requests_are_told_of(scene):
    page = show(scene)
    tool(shared["folder"], "trace", "anonymise", "b.kvtrace", "--output", "renamed.kvtrace")
    tool(shared["folder"], "trace", "head", "a.kvtrace", "--count", "9", "--output", "few.kvtrace")
    tool(shared["folder"], "compare", "a.kvtrace", "renamed.kvtrace", "--json", "renamed.json")
    tool(shared["folder"], "compare", "a.kvtrace", "few.kvtrace", "--json", "few.json")
    choose(page, path("renamed.json"), path("few.json"))
    page.until(f"{TABLES} === 2")
    check("matched by time and tokens, because no id is in both" in page.text(".beside > section"), "how requests are matched is not said")
    rows = page.run(ROWS)
    same_as_file(rows[0], read(shared["folder"], "renamed.json"))
    same_as_file(rows[1], read(shared["folder"], "few.json"))
    check("too few to say: 9 requests are done in both" in page.text(".beside > section + section .verdict"), "too few requests are judged")
    runs = page.run("[...document.querySelectorAll('.beside > section + section .runs tbody tr')].map((row) => [...row.cells].slice(2, 5).map((cell) => cell.textContent).join())")
    check(runs == ["200,9,191", "9,9,0"], f"transfers, matched and unmatched are {runs}")


# Reading waits until `go` is called, for the file of that name.
SLOW = """(() => {
  const real = File.prototype.arrayBuffer;
  File.prototype.arrayBuffer = function () {
    if (this.name === 'same.json') return new Promise((resolve) => { window.go = () => resolve(real.call(this)); });
    return this.name === 'back.json' ? Promise.reject(new DOMException('gone', 'NotReadableError')) : real.call(this);
  };
})()"""


def a_slow_file_is_waited_for(scene):
    page = show(scene)
    page.run(SLOW)
    choose(page, path("same.json"))
    page.until("document.querySelector('.drop').textContent.includes('Reading same.json…') && document.getElementById('replay-said').textContent.startsWith('Reading')")
    check(page.run(TABLES) == 0, "something is shown before it was read")
    page.run("window.go()")
    page.until(f"{TABLES} === 1 && !document.querySelector('.drop').textContent.includes('Reading')")
    check(page.text("#replay-said") == "Shown: same.json", "what is shown is not said: " + page.text("#replay-said"))
    page.click(".files button")
    choose(page, path("same.json"))
    page.until("document.querySelector('.drop').textContent.includes('Reading')")
    choose(page, path("changes.json"))  # the newer choice holds
    page.until(f"{TABLES} === 1")
    page.run("window.go()")
    page.run("new Promise((resolve) => setTimeout(resolve, 300))")
    check(page.run("document.querySelector('.files').textContent").startswith("changes.json") and page.run(TABLES) == 1, "an older choice came after the newer one")
    choose(page, path("back.json"))
    check(sentence(page).startswith("back.json cannot be read"), sentence(page))


def names_are_told_apart(scene):
    page = show(scene)
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 1")
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 2")
    titles = page.run("[...document.querySelectorAll('.beside h2')].map((one) => one.textContent)")
    check(titles == ["changes.json", "changes.json (2)"], f"two files of one name are {titles}")


def files_of_two_kinds_are_not_mixed(scene):
    page = show(scene)
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 1")
    choose(page, path("a.summary.json"))
    text = sentence(page)
    check(text.startswith("a.summary.json is a summary, and changes.json a comparison"), text)
    check(page.run(TABLES) == 1, "what was there is gone")
    page.click(".files button")
    page.until("document.getElementById('explained') !== null && document.activeElement.id === 'replay-files'", what="the focus is lost after Close")
    check(page.run(f"{ALERTS}.length") == 0, "the sentence stays")


# ---- wrong files -----------------------------------------------------------------------------------------------


def wrong_files():
    whole = open(path("changes.json"), "rb").read()
    report = json.loads(whole)
    for kind in ("perfetto", "otlp", "csv"):
        tool(shared["folder"], "trace", "export", "--to", kind, "a.kvtrace", "--output", f"a.{kind}.json")
    tool(shared["folder"], "compare", "a.kvtrace", "b.kvtrace", "--html", "changes.html")
    tool(shared["folder"], "trace", "cut", "a.kvtrace", "--output", "a.kvtrace.zst")
    with open(path("huge.json"), "wb") as file:
        file.truncate(LARGEST + 1)
    os.makedirs(path("folder.json"), exist_ok=True)
    more = {**report, "matched": report["a"]["transfers"] + 1}
    less = json.loads(whole)
    del less["time_ms"]["land"]["p99"]
    short, fallen = json.loads(whole), json.loads(whole)
    short["time_ms"]["land"]["curve"]["b"].pop()
    fallen["time_ms"]["land"]["curve"]["a"][20] = 0
    return {
        write("short.json", json.dumps(short)): "short.json looks like a comparison, but “time_ms.land.curve.b” has another number of points",
        write("fallen.json", json.dumps(fallen)): "fallen.json looks like a comparison, but “time_ms.land.curve.a” falls",
        write("cut.json", whole[:len(whole) // 2]): "cut.json is cut off: it ends before its JSON does",
        write("damaged.json", whole.replace(b":", b" ", 3)): "damaged.json is damaged: it is no JSON any more",
        write("empty.json", b""): "empty.json is empty",
        write("bytes.json", b"{\"a\": \"\xff\xfe\"}"): "bytes.json is no text",
        write("text.json", "hello"): "text.json is no JSON",
        write("list.json", "[1, 2]"): "list.json is JSON of another kind",
        write("other.json", '{"transfers": 3}'): "other.json is JSON of another kind",
        write("more.json", json.dumps(more)): "more.json looks like a comparison, but “matched” is out of range",
        write("less.json", json.dumps(less)): "less.json looks like a comparison, but “time_ms.land.p99” is no object",
        path("huge.json"): "huge.json has 16.0 MiB, and no file for this page has more than 16.0 MiB",
        path("a.kvtrace"): "a.kvtrace is a trace itself",
        path("a.kvtrace.zst"): "a.kvtrace.zst is compressed",
        path("requests.jsonl"): "requests.jsonl holds requests",
        path("a.perfetto.json"): "a.perfetto.json is an export for ui.perfetto.dev",
        path("a.otlp.json"): "a.otlp.json is an export of spans",
        path("a.csv.json"): "a.csv.json is no JSON",
        path("changes.html"): "changes.html is a page",
    }


def a_wrong_file_is_refused_with_a_sentence(scene):
    page = show(scene)
    for wrong, needed in wrong_files().items():
        page = show(scene)
        choose(page, wrong)
        text = sentence(page)
        check(text.startswith(needed), f"'{needed}' is not how it begins: {text}")
        check(text.count(". ") >= 1 and text.endswith("."), f"no remedy: {text}")
        check(page.run(TABLES) == 0 and page.run("document.getElementById('explained') !== null"), f"something of {wrong} is shown")
    choose(page, path("cut.json"), path("changes.json"))  # of two, one is wrong: neither is shown
    page.until(f"{ALERTS}[0]?.startsWith('cut.json is cut off')")
    check(page.run(TABLES) == 0, "half of the choice is shown")
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 1 && {ALERTS}.length === 0")
    choose(page, path("a.summary.json"), path("b.summary.json"), path("changes.json"))
    check(sentence(page).startswith("You chose 3 files."), sentence(page))


# Puts another value in the place of each part of a file, and opens that: it is shown whole, or refused by name.
SPOIL = """(async (text, stages) => {
  const rest = () => new Promise((resolve) => setTimeout(resolve, 0));
  const places = [];
  const walk = (value, path) => { if (path.length > 0) places.push(path); if (value && typeof value === 'object' && path.length < 4) for (const key of Object.keys(value)) walk(value[key], [...path, key]); };
  walk(JSON.parse(text), []);
  const values = [undefined, null, 'x', -1, 1e300, 0.5, true, [], {}, {__proto__: null, total: 3}];
  const bad = [];
  let shown = 0, refused = 0;
  for (let i = 0; i < places.length; i++) {
    for (const value of [values[0], values[1 + i % (values.length - 1)], values[1 + (i * 7 + 3) % (values.length - 1)]]) {
      const whole = JSON.parse(text);
      let at = whole;
      for (const key of places[i].slice(0, -1)) at = at[key];
      at[places[i].at(-1)] = value;
      document.querySelector('.files button')?.click();
      await rest();
      const files = new DataTransfer(), name = `spoilt-${shown + refused}.json`;
      files.items.add(new File([JSON.stringify(whole)], name));
      dispatchEvent(new DragEvent('drop', {dataTransfer: files, cancelable: true}));
      let said = '';
      for (let k = 0; k < 500 && !said; k++) {
        await rest();
        const alert = document.querySelector('#opener [role=alert]')?.textContent ?? '', file = document.querySelector('.files strong')?.textContent;
        said = alert.startsWith(name) ? 'refused' : file === name ? 'shown' : '';
      }
      const tables = document.querySelectorAll('table.changes').length, rows = document.querySelectorAll('table.changes tbody').length;
      if (!said || (said === 'refused' && tables > 0) || (said === 'shown' && text.includes('matched_by') && (tables !== 1 || rows < stages - 1 || /NaN|undefined|null|Infinity/.test(document.querySelector('.comparison').textContent)))) bad.push([places[i].join('.'), String(value), said, rows]);
      if (said === 'shown') shown++; else refused++;
    }
  }
  return [shown, refused, bad.slice(0, 5)];
})"""


def a_spoilt_file_is_never_shown_by_half(scene):
    for name in ("changes.json", "a.summary.json"):
        page = show(scene)
        page.take_complaints()
        report = read(shared["folder"], name)
        report.pop("agents", None)  # not shown
        for other in list(report["time_ms"])[1:-1]:
            del report["time_ms"][other]  # its fields are those of the others
        shown, refused, bad = page.run(f"{SPOIL}({json.dumps(json.dumps(report))}, 2)", 240)
        print(f"{name}: of {shown + refused} spoilt files {refused} are refused")
        check(not bad, f"shown by half, or without a sentence: {bad}")
        check(refused > 50, f"only {refused} are refused, {shown} are shown")
        complaints = page.take_complaints()
        check(not complaints, f"the browser complains: {complaints[:3]}")


# ---- the frame -------------------------------------------------------------------------------------------------


def requests_since(page):
    page.run("new Promise((resolve) => setTimeout(resolve, 300))")
    found = [event["params"]["request"]["url"] for event in page.browser.events if event["method"] == "Network.requestWillBeSent"]
    page.browser.events = []
    return found


def nothing_leaves_the_browser(scene):
    page = show(scene)
    page.click("#pause")  # the frame asks nothing then
    requests_since(page)
    for files in (["changes.json"], ["cut.json"], ["a.summary.json", "b.summary.json"]):
        choose(page, *map(path, files))
        page.until(f"{ALERTS}.length > 0 || [...document.querySelectorAll('.files strong')].at(-1)?.textContent === '{files[-1]}'")
    found = requests_since(page)
    check(not found, f"while files are read, it asks {found}")
    page.run("fetch('/api/v1/summary').then(() => true)")
    check(len(requests_since(page)) == 1, "this test sees no request")
    page.click("#pause")


def it_works_without_the_scheduler(scene):
    page = show(scene)
    page.until("document.getElementById('status').textContent !== '' && document.getElementById('version').textContent !== ''")
    scene.scheduler.stop()
    page.until("document.querySelector('main > .banner.bad')?.textContent.includes('This page does not need it')", 30)
    choose(page, path("changes.json"))
    page.until(f"{TABLES} === 1")
    scene.scheduler.start(scene.scheduler.host)
    page.until("document.querySelector('main > .banner.bad') === null", 40)
    check(page.run(TABLES) == 1, "the file is gone with the scheduler's return")


def keys_reach_everything(scene):
    page = show(scene)
    choose(page, path("a.summary.json"), path("b.summary.json"))
    page.until(f"{TABLES} === 1")
    page.run("document.getElementById('main').focus()")
    reached = []
    for _ in range(12):
        page.ask("Input.dispatchKeyEvent", {"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
        page.ask("Input.dispatchKeyEvent", {"type": "keyUp", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
        reached.append(page.run("(document.activeElement.getAttribute('aria-label') ?? document.activeElement.id) || document.activeElement.textContent"))
    wanted = ["replay-files", "Close a.summary.json", "Close b.summary.json", "Exchange A and B"]
    named = ["Exchange A and B" if name == "exchange" else name for name in reached]
    check(named[:4] == wanted and any(name.startswith("Times of") for name in named), f"Tab reaches {reached}")


if __name__ == "__main__":
    skip_without_browser("replay")
    sys.exit(run("replay", Scene(sys.argv[1]), [
        an_empty_page_says_what_makes_a_file, a_comparison_is_shown_as_the_file_has_it, a_file_of_before_has_no_curves, a_file_outlasts_another_page,
        two_comparisons_stand_beside_each_other, two_summaries_are_not_judged,
        few_and_renamed_requests_are_told_of, a_slow_file_is_waited_for, names_are_told_apart, files_of_two_kinds_are_not_mixed,
        a_wrong_file_is_refused_with_a_sentence, a_spoilt_file_is_never_shown_by_half, nothing_leaves_the_browser,
        it_works_without_the_scheduler, keys_reach_everything]))
