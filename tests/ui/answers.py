"""Goal: the page says the truth about answers that a fleet seldom gives: another bottleneck, rails without bytes, a
question that fails, a clock that is wrong, a quiet time, several refusals, and what was left out.
Method: the fleet of generate.c, and a script that stands between the page and the scheduler and changes answers.
usage: answers.py UI_GENERATE
"""
import datetime
import json
import re
import sys
import time

from scene import Scene, check, run, skip_without_browser

STATUS = "document.getElementById('status')?.textContent"
# `answers` has, for a path, what makes its answer: of the question, and of the true answer, which it may ask for.
BETWEEN = """(() => {
  const real = window.fetch.bind(window);
  window.asked = [];
  window.answers = {};
  window.problem = (status, message) => Response.json({error: {message}}, {status});
  window.fetch = async (path, options) => {
    const url = new URL(path, location.href), make = window.answers[url.pathname] ?? window.answers['*'];
    window.asked.push(url.pathname + url.search);
    if (!make) return real(path, options);
    const made = await make(url, async () => (await real(path, options)).json());
    return made instanceof Response ? made : Response.json(made);
  };
})();"""
# A stream that says what the test tells it to.
STREAM = """
  window.EventSource = class extends EventTarget {
    static OPEN = 1;
    static CLOSED = 2;
    constructor() { super(); this.readyState = 1; window.stream = this; }
    close() { this.readyState = 2; }
  };
  window.tell = (kind, news) => window.stream.dispatchEvent(new MessageEvent(kind, {data: JSON.stringify(news)}));
  window.rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  window.agent = (name, bytes) => ({name, role: 'prefill', state: 'up', host: 'host-' + name, version: '0.1.0',
    transfers_live: 0, rails_up: 1, drained: false, rail_bytes: [bytes]});
"""
shared = {}


def show(scene, fragment, script=""):
    """The one tab, opened anew with the script before those of the page."""
    page = shared.get("page")
    if page is None:
        page = shared["page"] = scene.browser.page("about:blank?")
    if "script" in shared:
        page.ask("Page.removeScriptToEvaluateOnNewDocument", {"identifier": shared["script"]})
    shared["script"] = page.ask("Page.addScriptToEvaluateOnNewDocument", {"source": BETWEEN + script})["identifier"]
    page.open(f"{scene.scheduler.base}#/{fragment}")
    return page


def rest(page, seconds):
    page.run(f"new Promise((resolve) => setTimeout(resolve, {seconds * 1000}))")


def shows(page, selector, text, seconds=20):
    page.until(f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})", seconds,
               f"{selector} does not say '{text}'")


MEANS = """window.answers['/api/v1/rollups'] = async (url, real) => {
  const body = await real();
  for (const one of body.series) for (const [name, times] of Object.entries(one.times ?? {}))
    times.mean_seconds = times.mean_seconds.map(() => window.means[name] ?? 0);
  return body;
};"""


def the_verdict_names_the_largest_part(scene):
    scene.play()
    # The writes waited long before they landed: land and settle are short, exposed is not.
    for means, text in (({"total": 0.1, "exposed": 0.06, "land": 0.01, "settle": 0.01, "match": 0.01, "grant": 0.01}, "Transfer is the bottleneck: a request waits 60.0 ms"),
                        ({"total": 0.1, "exposed": 0.01, "land": 0.01, "match": 0.08}, "The wait for the peer is the bottleneck: a request waits 80.0 ms"),
                        ({"total": 0.1, "exposed": 0.01, "land": 0.01, "grant": 0.07}, "The wait for a grant is the bottleneck"),
                        ({"total": 0.1, "exposed": 0.01, "land": 0.08}, "Prefill is the bottleneck, not transfer")):
        page = show(scene, "overview", MEANS + f"window.means = {json.dumps(means)};")
        shows(page, "#verdict", text)


def a_rail_without_bytes_is_the_least(scene):
    page = show(scene, "rails?agent=prefill-1")  # its rail 2 is down, and moves nothing
    shows(page, "#slowest", "Least was moved by rdmap81s0: 0 B")
    shows(page, "#slowest", "over 4 rails")
    check(page.run("document.querySelectorAll('.heatmap g').length") == 4, "the heatmap has not a row for each rail")
    page = show(scene, "rails?agent=prefill-1", "window.answers['/api/v1/rollups'] = async (url, real) => ({...await real(), left_out: 5});")
    shows(page, "#slowest", "5 rails that moved less than these")
    check("Least was moved" not in page.text("#slowest"), "the least is named although it was left out")


# Two columns of a minute; of the second, six seconds have passed.
MINUTES = """window.answers['/api/v1/rollups'] = () => {
  const from = Date.now() - 66000, series = [{rail: 0, totals: {bytes: 66e6, errors: 0}, bytes: [60e6, 6e6], errors: [0, 0]}];
  return {from: new Date(from).toISOString(), until: new Date(from + 120000).toISOString(), step_seconds: 60, points: 2, series, left_out: 0};
};"""


def the_last_column_is_not_over(scene):
    page = show(scene, "rails?agent=prefill-1", MINUTES)
    page.until("document.querySelectorAll('.heatmap g rect').length >= 2")
    titles = page.run("[...document.querySelectorAll('.heatmap g')][0].textContent")
    rates = [float(amount.replace(",", "")) * (1 if unit == "M" else 1e-3) for amount, unit in re.findall(r"([0-9.,]+) ([kM])B/s", titles)]
    check(len(rates) == 2 and all(0.6 < amount < 1.6 for amount in rates), f"1 MB/s in both columns is shown as {titles}")


def a_pause_holds_only_what_is_there(scene):
    page = show(scene, "overview")
    page.until("document.getElementById('verdict') !== null")
    page.click("#pause")
    page.click('nav a[href^="#/latency"]')
    page.until("document.querySelectorAll('.histogram').length === 7", what="a page that is opened in a pause is empty")
    compared = "window.asked.filter((path) => path.startsWith('/api/v1/compare') && !document.getElementById('moved')).length"
    rest(page, 1)
    before = page.run(compared)
    rest(page, 5)
    check(page.run(compared) == before, "a paused page asks again")
    page.click("#pause")
    page.until(f"{compared} > {before}", 2, "it does not ask at once after the pause")
    page.click("#pause")
    page.click('nav a[href^="#/transfers"]')
    page.until("document.querySelectorAll('#transfers tr.row').length > 10", what="the transfers are empty in a pause")
    page.click("#pause")


def a_wrong_clock_changes_nothing(scene):
    page = show(scene, "overview", "{ const now = Date.now; Date.now = () => now() + 3600e3; }")
    shows(page, "#clock", "is 60 min ahead of the scheduler's")
    page.until("document.getElementById('verdict') !== null")
    shows(page, "#changes table", "started, version 0.1.0")
    ages = page.run("[...document.querySelectorAll('#changes time')].map((one) => one.textContent)")
    check(ages and not any("min ago" in age or "h ago" in age for age in ages), f"the ages are {ages}")
    page.until("window.asked.filter((path) => path.startsWith('/api/v1/histograms')).length > 2")
    last = page.run("new URL(window.asked.filter((path) => path.startsWith('/api/v1/histograms')).at(-1), location.href).searchParams.get('until')")
    off = datetime.datetime.fromisoformat(last.replace("Z", "+00:00")).timestamp() - time.time()
    check(abs(off) < 30, f"it asked for a window that ends {off:.0f} s from now")


def a_failed_question_is_not_a_silent_scheduler(scene):
    page = show(scene, "overview", "window.answers['/api/v1/rollups'] = async (url, real) => window.broken ? window.problem(503, 'the database is busy') : real();")
    page.until("document.getElementById('verdict') !== null")
    page.run("window.broken = true")
    page.until("/^As of .*\\d\\d:\\d\\d:\\d\\d.*: the database is busy$/.test(document.querySelector('.stale-note')?.textContent)")
    rest(page, 2)
    check(page.run(f"{STATUS}.startsWith('following')"), "the status is " + page.text("#status"))
    check(page.run("document.querySelector('.banner.bad') === null && document.getElementById('verdict') !== null"), "the page says that the scheduler is silent, or has dropped its data")
    page.run("window.broken = false")
    page.until("document.querySelector('.stale-note') === null", 10)


def a_rate_after_a_quiet_time_is_true(scene):
    page = show(scene, "fleet", STREAM)
    page.until("window.stream !== undefined")
    page.run("""(async () => {
      const summary = await (await fetch('/api/v1/summary')).json();
      tell('snapshot', {summary, agents: [agent('quiet', 0)]});
      await rest(1000);
      tell('delta', {agents: [agent('quiet', 1e9)]});
      for (let i = 0; i < 12; i++) { await rest(500); tell('beat', {}); }
      tell('delta', {agents: [agent('quiet', 2e9)]});
      await rest(100);
    })()""")
    text = page.run("[...document.querySelectorAll('[data-agent=\"quiet\"] .row-button .value')].at(-1).textContent")
    amount, unit = text.split()
    bytes_per_second = float(amount) * {"GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3}[unit]
    check(4e8 < bytes_per_second < 3e9, f"1 GB after a quiet time, in reports of a second, is shown as {text}")


def silence_is_stale(scene):
    page = show(scene, "fleet", STREAM)
    page.until("window.stream !== undefined")
    for seconds, live, kind in ((0, 1, "good"), (20, 0, "good"), (20, 1, "stale")):
        page.run(f"""(async () => {{ const summary = await (await fetch('/api/v1/summary')).json();
          tell('snapshot', {{summary: {{...summary, states: {{live: {live}}}, last_event_seconds: {seconds}}}, agents: [agent('up', 0)]}}); await rest(300); }})()""")
        found = page.run("document.getElementById('status').dataset.kind")
        check(found == kind, f"{seconds} s of silence with {live} live transfers are '{found}'")


def what_nobody_told_of_is_no_health(scene):
    page = show(scene, "fleet", STREAM + "window.answers['/api/v1/rails/matrix'] = () => ({pairs: [], left_out: 0});")
    page.until("window.stream !== undefined")
    page.run("""(async () => { const summary = await (await fetch('/api/v1/summary')).json();
      tell('snapshot', {summary, agents: Array.from({length: 30}, (_, i) => agent('p' + i, 0))}); })()""")
    shows(page, "#pairs", "No pair in trouble was reported, but p0 has told of none of its pairs yet")
    page = show(scene, "fleet", "window.answers['/api/v1/rails/matrix'] = async (url, real) => ({...await real(), left_out: 7});")
    shows(page, "#pairs", "7 pairs more are left out here")


def a_timeline_that_fails_says_so(scene):
    one = scene.scheduler.ask("transfers?state=done&limit=1")["transfers"][0]["id"]
    page = show(scene, f"transfers?open={one}", f"window.answers['/api/v1/transfers/{one}/timeline'] = () => window.problem(503, 'the database is busy');")
    shows(page, "#spans-note", "The times of layers were not to be had: the database is busy")


def numbers_and_axes_are_exact(scene):
    page = show(scene, "overview?range=15m")
    shows(page, "#moved", "7.5 min")
    page = show(scene, "overview?range=7d", """
      window.drawn = new Set();
      const fill = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...more) { window.drawn.add(text); return fill.call(this, text, ...more); };""")
    page.until("[...window.drawn].filter((text) => /^(\\d{1,2} )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)( \\d{1,2})?$/.test(text)).length >= 4",
               what="the axis of 7 days has no dates")


def filters_go_where_they_are_applied(scene):
    page = show(scene, "transfers?tenant=blue")
    page.until("document.querySelectorAll('#transfers tr.row').length > 3")
    links = page.run("[...document.querySelectorAll('nav[aria-label=Pages] a')].map((link) => link.getAttribute('href'))")
    check([link for link in links if "tenant=" in link] == ["#/transfers?tenant=blue"], f"the links are {links}")
    check(page.run("document.getElementById('range').disabled && document.getElementById('range').title.length > 20"), "the range can be chosen")
    page = show(scene, "errors")
    page.until("document.querySelectorAll('.examples a').length > 0")
    links = page.run("[...document.querySelectorAll('.error-group a')].map((link) => link.getAttribute('href'))")
    check(all("from=" in link and "until=" in link for link in links), f"the links of the errors are {links[:2]}")
    page.click(".error-group a")
    page.until("document.querySelectorAll('#transfers tr.row').length > 0")


def the_first_refusal_keeps_its_reason(scene):
    page = show(scene, "overview")
    page.until("document.getElementById('verdict') !== null")
    page.run("window.answers['*'] = async () => { await new Promise((resolve) => setTimeout(resolve, 500)); return window.problem(401, 'your session has ended'); }")
    page.until("document.getElementById('sign-in-why') !== null")
    rest(page, 2)
    check(page.text("#sign-in-why") == "your session has ended", "the reason is: " + page.text("#sign-in-why"))


# Three rails of one agent; the one in the middle moves a tenth of what the others do.
UNEVEN = """(async () => {
  const summary = await (await fetch('/api/v1/summary')).json(), bytes = [0, 0, 0];
  const uneven = () => ({...agent('uneven', 0), rails_up: 3, rail_bytes: [...bytes]});
  tell('snapshot', {summary, agents: [uneven()]});
  for (let i = 0; i < 5; i++) {
    await rest(600);
    for (const [rail, more] of [6e8, 6e7, 6e8].entries()) bytes[rail] += more;
    tell('delta', {agents: [uneven()]});
  }
})()"""


def a_stranger_finds_the_slowest_card(scene):
    page = show(scene, "overview", STREAM)
    page.until("window.stream !== undefined")
    page.run(UNEVEN)
    shows(page, "#slowest-now", "The slowest card now is rail 1 of uneven.")
    moved = [float(amount.replace(",", "")) * {"M": 1, "G": 1000}[unit]
             for amount, unit in re.findall(r"([0-9.,]+) (M|G)B/s", page.text("#slowest-now"))]
    check(len(moved) == 2 and 9 < moved[1] / moved[0] < 11, f"the rates are {moved}")
    page = show(scene, "overview")
    shows(page, "#slowest-now", "The slowest card now is rdmap81s0 of prefill-1, which is down.")  # no click
    page.click("#slowest-now a")
    page.until("document.getElementById('rails-agent')?.value === 'prefill-1'")


def a_stranger_finds_why_a_transfer_failed(scene):
    failed = scene.scheduler.ask("transfers?reason=rail_failed&limit=1")["transfers"][0]
    page = show(scene, "overview")
    page.click('nav a[href^="#/transfers"]')  # one
    page.type("input[name=request]", failed["request"])
    page.click(f'tr[data-key="{failed["id"]}"]')  # two
    shows(page, ".why[data-kind=bad]", "completion error 5 (flushed), link down")
    page.until("document.getElementById('next').textContent.length > 20")


def a_stranger_sees_what_the_last_minute_changed(scene):
    page = show(scene, "overview")
    shows(page, "#minute", "The last minute against the minute before: ", 90)
    numbers = re.search(r"([\d,]+) transfers ended, (\d+) of them not done; before (\d+), (\d+)\.", page.text("#minute"))
    check(numbers is not None and int(numbers.group(1).replace(",", "")) > 10, "it says: " + page.text("#minute"))


def a_stranger_sees_whether_a_lost_rail_came_back(scene):
    page = show(scene, "overview")
    page.until("[...document.querySelectorAll('#changes tr[data-still]')].some((row) => row.textContent.includes('rdmap81s0 is down'))",
               what="it does not say that the rail is down")
    scene.mend_rail()
    page.until("[...document.querySelectorAll('#changes tr[data-change=fault]')].some((row) => /rdmap81s0 was down for .*, and is back/.test(row.textContent))",
               what="it does not say that the rail is back")
    check("rdmap81s0 is down" not in page.text("#changes"), "the rail is still said to be down")


if __name__ == "__main__":
    skip_without_browser("answers")
    sys.exit(run("answers", Scene(sys.argv[1]), [
        the_verdict_names_the_largest_part, a_rail_without_bytes_is_the_least, the_last_column_is_not_over,
        a_pause_holds_only_what_is_there, a_wrong_clock_changes_nothing, a_failed_question_is_not_a_silent_scheduler,
        a_rate_after_a_quiet_time_is_true, silence_is_stale, what_nobody_told_of_is_no_health, a_timeline_that_fails_says_so,
        numbers_and_axes_are_exact, filters_go_where_they_are_applied, a_stranger_finds_the_slowest_card, a_stranger_finds_why_a_transfer_failed,
        a_stranger_sees_what_the_last_minute_changed, a_stranger_sees_whether_a_lost_rail_came_back, the_first_refusal_keeps_its_reason]))
