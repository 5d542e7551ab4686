"""Goal: each page shows what the scheduler knows, filters and opens what a person asks for, keeps few rows in the
page however many there are, and asks only the scheduler.
Method: a real scheduler, the fleet of generate.c, and scripts that click in headless Chromium.
usage: pages.py UI_GENERATE
"""
import json
import sys

from pace import best_of
from scene import Scene, check, run, skip_without_browser, wait_for
from tracing import Tracing, describe, longest

ROWS_IN_PAGE_MAX = 200
TASK_MS_MAX = 100  # of the processor
PAGES = ("overview", "fleet", "transfers", "rails", "latency", "errors", "replay")
shared = {}


def tab(scene):
    """One tab for all cases."""
    if "page" not in shared:
        shared["page"] = scene.browser.page(scene.scheduler.base)
    return shared["page"]


def show(scene, fragment):
    page = tab(scene)
    page.open(f"{scene.scheduler.base}#/{fragment}")
    return page


def says(page, text, seconds=20):
    page.until(f"document.body.textContent.includes({json.dumps(text)})", seconds, f"the page does not show '{text}'")


def nothing_is_said_to_be_nothing(scene):
    page = show(scene, "overview")
    says(page, "No agent has reported yet")
    says(page, "no event yet")
    for name, text in (("transfers", "No transfer yet"), ("fleet", "No agent has reported yet"),
                       ("errors", "No transfer has failed"), ("latency", "No transfer has ended")):
        show(scene, name)
        says(page, text)


def overview_shows_the_state(scene):
    scene.play()
    page = show(scene, "overview")
    for text in ("GB/s", "following", "insecure: agents prove no identity to it", "is the bottleneck",
                 "Where the time goes", "started, version 0.1.0"):
        says(page, text)
    page.until("document.querySelectorAll('.plot canvas').length === 4")
    page.click(".chart details.data summary")
    page.until("document.querySelectorAll('.chart details.data tbody tr').length > 20")
    check(" ms" in page.text(".chart details.data table"), "the chart's data have no unit")


def fleet_is_worst_first(scene):
    page = show(scene, "fleet")
    for text in ("prefill-0", "decode-1", "rail down", "insecure: peers prove no identity", "2 peers, warm",
                 "2 peers, 1 warm", "100 Gbit/s"):
        says(page, text)
    wait_for("the lost agent", lambda: any(agent["state"] == "lost" for agent in scene.scheduler.ask("agents")["agents"]))
    page.until("[...document.querySelectorAll('.host')].map((host) => host.dataset.state).join() === 'lost,down,stopped,up,up,up'",
               what="the hosts' order")
    page.until("document.querySelector('[data-agent=\"prefill-1\"] .lane[data-state=\"down\"]') !== null")
    page.type("input[type=search]", "decode-0")
    page.until("document.querySelectorAll('.host').length === 1 && location.hash.includes('q=decode-0')")
    page.type("input[type=search]", "")
    page.until("document.querySelector('#matrix') !== null")
    check(page.run("document.querySelector('.cell.state-unreachable').title").startswith("prefill-1 → decode-1"), "the matrix")
    page.click(".cell.state-unreachable")
    says(page, "completion error 5")


def errors_say_what_to_do(scene):
    page = show(scene, "errors")
    page.click('[data-code="peer_lost"] .row-button')
    says(page, "decode-1 gave no sign for 3.1 s")
    says(page, "check that the other agent runs")
    page.click('[data-code="peer_lost"] .examples a')
    page.until("location.hash.startsWith('#/transfers?') && location.hash.includes('open=')")
    page.until("document.querySelector('.detail #next')?.textContent.includes('check that the other agent runs')")


def a_transfer_opens_its_timeline(scene):
    sampled = wait_for("a transfer with layers", lambda: next(
        (one["id"] for one in scene.scheduler.ask("transfers?state=done&limit=100")["transfers"] if int(one["id"], 16) % 4 == 0), None))
    page = show(scene, f"transfers?open={sampled}")
    page.until("document.querySelectorAll('.timeline .layer').length === 80", what="a row a layer")
    check(page.run("document.querySelectorAll('.timeline .critical').length") == 1, "the critical path is not marked")
    says(page, "The critical path is layer 79")
    says(page, "rdmap79s0")
    page.run("window.saved = null; URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }; HTMLAnchorElement.prototype.click = () => {};")
    page.click("#perfetto")
    trace = json.loads(page.run("window.saved.text()"))
    names = {event["name"] for event in trace["traceEvents"]}
    check({"waiting for prefill", "on the way", "to be delivered"} <= names, f"the trace has {names}")
    page.key("Escape")
    page.until("!location.hash.includes('open=') && document.querySelector('.detail') === null")


def former_addresses_still_open(scene):
    failed = scene.scheduler.ask("transfers?state=failed&limit=1")["transfers"][0]["id"]
    page = tab(scene)
    page.open(f"{scene.scheduler.base}#state=failed&open={failed}")
    page.until(f"document.getElementById('detail-{failed}')?.querySelector('.timeline') instanceof Element")
    says(page, "Target said")
    page.until("document.querySelectorAll('#transfers tr.row').length > 0 && [...document.querySelectorAll('#transfers tr.row')].every((row) => row.textContent.includes('failed'))")


def tenants_are_told_apart(scene):
    page = show(scene, "transfers")
    tenants = "[...new Set([...document.querySelectorAll('#transfers tr.row')].map((row) => row.cells[2].textContent))].sort().join()"
    page.until(f"{tenants} === 'blue,red'")
    page.type("#tenant", "blue")
    page.until(f"{tenants} === 'blue'")
    page.click('[data-filter="done"]')
    page.until(f"{tenants} === 'blue' && location.hash === '#/transfers?tenant=blue&state=done'")
    # The failure of another tenant, from its group, is shown all the same.
    page.open(f"{scene.scheduler.base}#/errors?tenant=blue")
    page.click(".examples a")
    page.until("document.querySelector('.detail .facts') !== null")


def columns_are_chosen(scene):
    page = show(scene, "transfers")
    heads = "[...document.querySelectorAll('#transfers th')].map((head) => head.textContent).join()"
    page.until(f"{heads}.includes('Tenant') && !{heads}.includes('Layers')")
    page.run("[...document.querySelectorAll('.choice label')].find((label) => label.textContent === 'Layers').querySelector('input').click()")
    page.until(f"{heads}.includes('Layers') && location.hash.includes('columns=') && location.hash.includes('layers')")
    # A link has the columns and the open row, for a browser that has chosen others.
    link, one = page.run("location.hash"), page.run("document.querySelector('#transfers tr.row').dataset.key")
    page.run("localStorage.clear()")
    page.open(f"{scene.scheduler.base}{link}&open={one}")
    page.until(f"{heads}.includes('Layers') && document.getElementById('detail-{one}') !== null")
    page.key("Escape")
    page.run("[...document.querySelectorAll('.choice label')].find((label) => label.textContent === 'Layers').querySelector('input').click()")
    page.until(f"!{heads}.includes('Layers') && !location.hash.includes('columns=')")


def rows_are_sorted(scene):
    page = show(scene, "transfers?state=done")
    page.until("document.querySelectorAll('#transfers tr.row').length > 20")
    page.click("#pause")
    page.click('[data-sort="bytes"]')
    sizes = """[...document.querySelectorAll('#transfers tr.row')].map((row) => row.cells[5].textContent.split(' '))
        .map(([amount, unit]) => parseFloat(amount) * 1024 ** ['B', 'KiB', 'MiB', 'GiB'].indexOf(unit))"""
    for way, sign, word in (("down", -1, "descending"), ("up", 1, "ascending")):
        page.until(f"location.hash.includes('sort=bytes-{way}') && document.querySelector('th[aria-sort={word}]') !== null")
        found = page.run(sizes)
        check(len(found) > 20 and found == sorted(found, key=lambda size, sign=sign: sign * size) and found[0] != found[-1],
              f"the sizes, {word}, are {found}")
        check("these rows alone, not the older ones" in page.text("#sort-note"), "the page says: " + page.text("#sort-note"))
        page.click('[data-sort="bytes"]')
    page.until("document.getElementById('sort-note') === null && !location.hash.includes('sort=')")
    page.click("#pause")


# Pages back while new transfers come; then compares all rows with the scheduler's list.
GATHER = """(async () => {
  const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const place = document.querySelector('.rows'), found = new Map();
  place.scrollTop = 0;
  for (;;) {
    // A busy machine draws late: what is to be seen must be there first.
    const first = Math.floor(place.scrollTop / 32) + 2, last = Math.min(Number(document.getElementById('row-count').dataset.rows) + 1, first + Math.floor(place.clientHeight / 32) - 2);
    const there = (at) => document.querySelector(`#transfers tr.row[aria-rowindex="${at}"]`) !== null;
    for (let tries = 0; tries < 500 && !(there(first) && there(last)); tries++) await rest(20);
    for (const row of document.querySelectorAll('#transfers tr.row')) found.set(Number(row.getAttribute('aria-rowindex')), row.dataset.key);
    if (place.scrollTop + place.clientHeight >= place.scrollHeight - 2) break;
    place.scrollTop += place.clientHeight;
  }
  return [...found].sort((a, b) => a[0] - b[0]).map((entry) => entry[1]);
})()"""


def older_rows_come_without_a_gap(scene):
    page = show(scene, "transfers")
    count = "Number(document.getElementById('row-count')?.dataset.rows ?? 0)"
    page.until(f"{count} >= 100 && document.getElementById('more') !== null")
    for wanted in (150, 250):
        page.click("#more")
        page.until(f"{count} >= {wanted}")
    page.run("new Promise((resolve) => setTimeout(resolve, 3000))")
    page.click("#pause")
    shown = page.run(GATHER)
    listed, after = [], ""
    while after is not None:
        answer = scene.scheduler.ask(f"transfers?limit=500{'&after=' + after if after else ''}")
        listed += [one["id"] for one in answer["transfers"]]
        after = answer["next"]
    places = {name: at for at, name in enumerate(listed)}
    live = {one["id"] for one in scene.scheduler.ask("transfers?state=live")["transfers"]}
    shown = [name for name in shown if name not in live]  # these stand first, wherever they began
    at = [places[name] for name in shown]
    missing = [name for name in listed[min(at):max(at) + 1] if name not in set(shown) and name not in live]
    check(len(shown) > 240 and not missing, f"{len(missing)} of {len(shown)} rows are missing")
    check(len(set(shown)) == len(shown), "rows are there twice")
    check(at == sorted(at), "rows are out of order")
    page.click("#pause")


# 10,000 scripted transfers that never end, newest first, in the scheduler's place.
MANY = """(async () => {
  const asked = window.fetch, last = 10000;
  const [one] = (await (await asked('/api/v1/transfers?limit=1')).json()).transfers;
  const at = (i) => ({...one, id: i.toString(16).padStart(16, '0'), live: true, state: 'first_post', age_seconds: 1});
  window.alone = 0;
  window.fetch = async (path, options) => {
    const url = new URL(path, location.href);
    if (url.pathname.startsWith('/api/v1/transfers/')) {
      window.alone++;
      return Response.json({...at(parseInt(url.pathname.slice(18), 16)), events: []});
    }
    if (url.pathname !== '/api/v1/transfers') return asked(path, options);
    const after = Number(url.searchParams.get('after') || last), limit = Number(url.searchParams.get('limit'));
    const transfers = Array.from({length: Math.min(limit, after)}, (_, i) => at(after - i));
    return Response.json({transfers, next: after > limit ? String(after - limit) : null});
  };
})()"""


def scroll(page):
    page.run("window.alone = 0, window.began = performance.now()")
    page.run("""(async () => { const place = document.querySelector('.rows');
        for (let i = 0; i < 40; i++) { place.scrollTop = place.scrollHeight * i / 40; await new Promise((resolve) => setTimeout(resolve, 50)); } })()""")
    in_page = page.run("document.querySelectorAll('#transfers tr').length")
    page.run("new Promise((resolve) => setTimeout(resolve, 3000))")
    alone, seconds = page.run("[window.alone, (performance.now() - window.began) / 1000]")
    print(f"10,000 rows: {in_page} row elements, {alone / seconds:.0f} single questions a second")
    check(in_page <= ROWS_IN_PAGE_MAX, f"{in_page} row elements")
    check(0 < alone <= 60 * seconds, f"{alone} questions for single transfers in {seconds:.1f} s")


def many_rows_cost_little(scene):
    page = show(scene, "transfers")
    page.until("document.querySelectorAll('#transfers tr.row').length > 10")
    page.run(MANY)
    page.click('[data-filter="live"]')
    count = "Number(document.getElementById('row-count')?.dataset.rows ?? 0)"
    page.until(f"document.getElementById('more')?.click(), {count} >= 10000", 60)

    def scrolled():
        tracing = Tracing(page)
        scroll(page)
        task = longest(tracing.tasks())
        return task["ms"], "longest task " + describe(task)

    best_of(page, "10,000 rows", scrolled, TASK_MS_MAX)


def keys_lead_everywhere(scene):
    page = show(scene, "overview")
    page.until("document.getElementById('verdict') !== null")
    page.key("?")
    page.until("document.getElementById('help').open")
    page.key("Escape")
    page.until("!document.getElementById('help').open")
    for key, name in zip("234567", PAGES[1:]):
        page.key(key)
        page.until(f"location.hash.startsWith('#/{name}')")
    page.key("3")
    page.until("document.querySelectorAll('#transfers tr.row').length > 10")
    page.key("j")
    page.until("document.activeElement?.dataset?.key")
    focused = page.run("document.activeElement.dataset.key")
    page.run("new Promise((resolve) => setTimeout(resolve, 2500))")
    check(page.run("document.activeElement?.dataset?.key") == focused, "the focus was lost at an update")
    page.key("Enter")
    page.until(f"document.getElementById('detail-{focused}') !== null")
    page.key(" ")
    page.until("document.getElementById('status').textContent === 'paused'")
    page.key(" ")
    page.until("document.getElementById('status').textContent.startsWith('following')")
    page.key("]")  # this page has no range
    check(page.run("document.getElementById('range').disabled") is True, "the range can be chosen on a page without one")
    # A region that scrolls keeps its own keys.
    page.run("document.querySelector('.detail .scroll, .detail summary').focus()")
    for name in ("ArrowDown", " "):
        page.key(name)
    page.run("new Promise((resolve) => setTimeout(resolve, 300))")
    check(page.run(f"location.hash.includes('open={focused}')"), "an arrow outside of the table opened another row")
    page.key("1")
    page.until("location.hash.startsWith('#/overview')")
    check("range=" not in page.run("location.hash"), "] chose a range on a page without one")
    page.key("]")
    page.until("location.hash.includes('range=1h')")


def questions_need_three_clicks(scene):
    """Each answer is there after at most three clicks from the first page."""
    page = show(scene, "overview")
    page.until("/^(Prefill|Transfer) is the bottleneck/.test(document.getElementById('verdict')?.textContent)")  # none
    says(page, "started, version 0.1.0")  # what changed: none
    page.click('nav a[href^="#/fleet"]')  # the slowest card: two, by the agent of which a rail is down
    page.click('[data-agent="prefill-1"] .agent-detail a[href^="#/rails"]')
    says(page, "Least was moved by rdmap81s0: 0 B")
    page.click('nav a[href^="#/errors"]')  # why a transfer failed: two
    page.click(".examples a")
    page.until("document.querySelector('.why[data-kind=bad]') !== null && document.getElementById('next').textContent.length > 20")
    page.click('nav a[href^="#/fleet"]')  # whether a rail came back: one
    rail = "document.querySelectorAll('[data-agent=\"prefill-1\"] .lane')[2]?.dataset.state"
    page.until("document.querySelector('[data-agent=\"prefill-1\"]').textContent.includes('3 of 4 rails up')")
    page.until(f"{rail} === 'down'", what="the rail that is down is not shown to be")
    scene.mend_rail()
    page.until(f"{rail} === 'up'", what="the rail that came back is not shown to have")
    page.until("!document.querySelector('[data-agent=\"prefill-1\"]').textContent.includes('rails up')")


def nothing_is_asked_of_others(scene):
    page = tab(scene)
    for name in PAGES:
        show(scene, name)
        page.run("new Promise((resolve) => setTimeout(resolve, 300))")
    complaints = page.take_complaints()
    check(not complaints, f"the browser complains: {complaints[:3]}")


if __name__ == "__main__":
    skip_without_browser("pages")
    sys.exit(run("pages", Scene(sys.argv[1]), [
        nothing_is_said_to_be_nothing, overview_shows_the_state, errors_say_what_to_do, fleet_is_worst_first,
        a_transfer_opens_its_timeline, former_addresses_still_open, tenants_are_told_apart, columns_are_chosen, rows_are_sorted,
        older_rows_come_without_a_gap, keys_lead_everywhere, questions_need_three_clicks, many_rows_cost_little,
        nothing_is_asked_of_others]))
