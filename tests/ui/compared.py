"""Goal: what the page compares is true: a box over the heatmap of rails, two windows of Latency, and the lanes of the
fleet. Their figures are those of the scheduler's API, and what cannot be compared is explained.
Method: the fleet of generate.c, a mouse and keys in headless Chromium, and a stream of 256 scripted agents.
usage: compared.py UI_GENERATE
"""
import datetime
import json
import math
import re
import sys
import time
import urllib.parse

from answers import STREAM, rest, show, shows
from scene import Scene, check, run, skip_without_browser, wait_for

STEP_S = 5  # of a column, in 5 minutes


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def wanted(page):
    return dict(urllib.parse.parse_qsl(page.run("location.hash").split("?", 1)[1]))


def box_of(page):
    page.until("location.hash.includes('box=')", what="the box is not in the address")
    first, last, begin, end = re.fullmatch(r"(\d+)-(\d+)@(.+)/(.+)", wanted(page)["box"]).groups()
    return int(first), int(last), seconds_of(begin), seconds_of(end)


def amounts(scene, agent, begin, end):
    """Bytes of each rail in that time."""
    answer = scene.scheduler.ask(f"rollups?by=rail&agent={agent}&from={iso(begin)}&until={iso(end)}")
    sums = {one["rail"]: one["totals"]["bytes"] for one in answer["series"]}
    return [sums.get(rail, 0) for rail in range(4)]


def figure(page, measure, beginning, side):
    script = f"""[...document.querySelectorAll('#differs tbody tr')].find((row) => row.dataset.measure === {json.dumps(measure)} &&
        row.cells[0].textContent.startsWith({json.dumps(beginning)}))?.dataset.{side}"""
    return float(page.until(script, what=f"there is no {measure} of {beginning}"))


def near(what, found, true, part=0.02):
    check(abs(found - true) <= part * max(abs(true), 1e-9), f"{what} is {found}, not {true}")


def rails(scene, agent):
    page = show(scene, f"rails?agent={agent}&range=5m")
    # What is compared with must be there: several columns, and those before them.
    page.until("document.querySelectorAll('.heatmap g:first-child rect:not(.heat--1)').length >= 9", 90)
    return page


def cell(page, row, column):
    """The middle of a cell, in pixels of the window; columns count from the last one back."""
    return page.run(f"""(() => {{ const cells = document.querySelectorAll('.heatmap g')[{row}].querySelectorAll('rect');
        const area = cells[cells.length - 1 - {column}].getBoundingClientRect(); return [area.x + area.width / 2, area.y + area.height / 2]; }})()""")


def the_box_is_true(scene, page, agent):
    """Bytes a second of the whole box, of the same cards outside of it, and of the other cards, are the API's."""
    first, last, begin, end = box_of(page)
    cards, span = last - first + 1, end - begin
    who = f"Each of {agent}'s {cards} cards" if cards > 1 else f"{agent}'s card"
    inside = figure(page, "Bytes a second", who, "inside")
    during = amounts(scene, agent, begin, end)
    near("the rate inside", inside, sum(during[first:last + 1]) / span / cards)
    other = [bytes_ for rail, bytes_ in enumerate(during) if not first <= rail <= last]
    near("the rate of the other cards", figure(page, "Bytes a second", who, "others"), sum(other) / span / len(other))
    shown = seconds_of(wanted(page)["until"])
    whole = amounts(scene, agent, shown - 300, shown)
    outside = (sum(whole[first:last + 1]) - sum(during[first:last + 1])) / (min(shown, time.time()) - (shown - 300) - span) / cards
    near("the rate in the rest of the time", figure(page, "Bytes a second", who, "before"), outside, 0.1)
    return first, last, begin, end


def a_box_is_drawn_by_mouse(scene):
    scene.play()
    page = rails(scene, "prefill-0")
    (x0, y0), (x1, y1) = cell(page, 1, 6), cell(page, 2, 3)
    page.mouse("mousePressed", x0, y0)
    page.mouse("mouseMoved", (x0 + x1) / 2, y1)
    page.until("document.querySelector('.heatmap .box .chosen') !== null", what="the box is not drawn while the mouse moves")
    check("box=" not in page.run("location.hash"), "a box stands before it is drawn")
    page.mouse("mouseMoved", x1, y1)
    page.mouse("mouseReleased", x1, y1)
    first, last, begin, end = the_box_is_true(scene, page, "prefill-0")
    check((first, last, end - begin) == (1, 2, 4 * STEP_S), f"the box has cards {first} to {last} and {end - begin} s")
    scores = page.run("[...document.querySelectorAll('#differs tbody tr')].map((row) => { const of = (name) => Number(row.dataset[name]); "
                      "return Math.max(...['before', 'others'].filter((name) => row.dataset[name] !== '' && of(name) > 0 && of('inside') > 0).map((name) => Math.abs(Math.log(of('inside') / of(name)))), 0); })")
    check(len(scores) >= 3, f"there are {len(scores)} differences")
    shows(page, "#inside", "rdmap80s0 to rdmap81s0 of prefill-0")
    most = page.text("#differs tbody tr td")
    check(most in page.text("#differs-most") or "Nothing differs" in page.text("#differs-most"), "the largest difference is not the first")


def a_box_keeps_its_time(scene):
    page, = scene.browser.pages
    before = wanted(page)["box"], page.text("#inside")
    began = page.run("document.querySelector('.heatmap g:first-child rect title').textContent.match(/at (.*?):? /)[1]")
    rest(page, 7)
    check((wanted(page)["box"], page.text("#inside")) == before, "the box has become another time")
    check(page.run("document.querySelector('.heatmap g:first-child rect title').textContent.match(/at (.*?):? /)[1]") == began, "the time moves on under a box")
    page.open(page.run("location.href"))  # as another person opens the link
    shows(page, "#inside", "rdmap80s0 to rdmap81s0 of prefill-0")
    the_box_is_true(scene, page, "prefill-0")
    page.click("#follow-again")
    page.until("!location.hash.includes('box=') && document.getElementById('differs') === null")
    page.until("document.querySelector('.bar .quiet').textContent.startsWith('in the last 5 min')", what="the page does not follow again")


def percentile(values, part):
    return sorted(values)[math.ceil(part * len(values)) - 1]


def a_box_is_drawn_by_keys(scene):
    page = rails(scene, "prefill-1")
    page.run("document.getElementById('heatmap').focus()")
    for key in ["ArrowRight"] + ["ArrowLeft"] * 3 + ["ArrowDown"] * 2:
        page.key(key)
    for key in ["ArrowLeft"] * 4 + ["ArrowDown"]:
        page.key(key, shift=True)
    first, last, begin, end = the_box_is_true(scene, page, "prefill-1")
    check((first, last, end - begin) == (2, 3, 5 * STEP_S), f"the box has cards {first} to {last} and {end - begin} s")
    page.until("document.activeElement.id === 'heatmap'", what="the focus was lost")
    # The card that is down: nothing, where the others carried something; and the transfers' times.
    page.until("[...document.querySelectorAll('#differs td.text')].some((one) => one.textContent.startsWith(\"prefill-1's card rdmap81s0 carried nothing\"))")
    shows(page, "#box-states", "rdmap81s0 was down")
    listed = scene.scheduler.ask(f"transfers?agent=prefill-1&from={iso(begin)}&until={iso(end)}&limit=500")["transfers"]
    times = [one["duration_seconds"] for one in listed if one["state"] == "done" and {2, 3} & set(one["source"]["rails"])]
    near("the p99", figure(page, "p99 of transfers", "Transfers over the box", "inside"), percentile(times, 0.99))
    near("the p50", figure(page, "p50 of transfers", "Transfers over the box", "inside"), percentile(times, 0.5))
    units = page.run("[...document.querySelectorAll('#differs tbody td.number')].map((one) => one.textContent).filter((text) => text !== '–' && !/( (k|M|G)B\\/s| ms| s| µs| %| a minute| each)/.test(text))")
    check(not units, f"figures without a unit: {units}")
    page.key("Escape")
    page.until("!location.hash.includes('box=') && document.querySelector('.heatmap .box') === null")


def a_box_that_cannot_be_read_is_told_of(scene):
    page = show(scene, "rails?agent=prefill-0&box=nonsense")
    shows(page, ".stale-note", "no box that can be read: “nonsense”")
    page.until("document.querySelector('.heatmap') !== null")


def two_chosen_windows_are_compared(scene):
    now = int(time.time())
    wait_for("both windows", lambda: time.time() > now + 14)
    windows = [(now - 25, now + 1), (now + 1, now + 11)]
    (begin, middle), (_, end) = windows
    page = show(scene, f"latency?compare=own&a={iso(middle)}/{iso(end)}&b={iso(begin)}/{iso(middle)}")
    page.until("document.querySelectorAll('#stage-differences li').length === 7")
    true = scene.scheduler.ask(f"compare?from={iso(middle)}&until={iso(end)}&with_from={iso(begin)}&with_until={iso(middle)}")
    for stage, times in true["window"]["times"].items():
        now_, before = page.run(f"(({{dataset}}) => [dataset.now, dataset.before])(document.querySelector('#stage-differences [data-stage=\"{stage}\"]'))")
        near(f"the p99 of {stage}", float(now_), times["p99_seconds"])
        near(f"the p99 of {stage} before", float(before), true["with"]["times"][stage]["p99_seconds"])
    check(page.run("document.getElementById('difference').dataset.moved") == (true["moved"] or ""), "another stage moved most")
    order = page.run("[...document.querySelectorAll('#stage-differences li')].slice(1).map((one) => Math.abs(one.dataset.now - one.dataset.before))")
    check(order == sorted(order, reverse=True), f"the differences come in the order {order}")
    check(page.run("document.getElementById('difference').textContent.match(/exposed p99 [0-9.]+ (µs|ms|s)/g).length") == 2, "no exposed time beside the p99s")
    check(page.run("[...document.querySelectorAll('.histogram figcaption .quiet')].every((one) => /p99 [0-9.]+ (µs|ms|s)( \\(exposed [0-9.]+ (µs|ms|s)\\))?$/.test(one.textContent))"), "a p99 without its exposed time")
    shows(page, "#window-a", f"{true['window']['transfers']:,} transfers")
    shows(page, "#window-a", "UTC")


def a_choice_that_is_none_is_explained(scene):
    now = time.time()
    good = f"{iso(now - 60)}/{iso(now - 30)}"
    for a, b, text in ((f"{iso(now - 30)}/{iso(now - 60)}", good, "Window A ends before it begins"), (good, "soon/later", "Window B has no begin that is a time"),
                       (good, f"{iso(now - 60)}/", "Window B has no end that is a time"), (f"{iso(now + 600)}/{iso(now + 900)}", good, "Window A has not begun yet"),
                       (good, good, "Both windows are the same time"), ("last:0m", good, "Window A has no second"), ("last:9000d", good, "Window A is longer than a year"),
                       ("", good, "Window A is not chosen yet")):
        page = show(scene, f"latency?compare=own&a={a}&b={b}")
        shows(page, "#no-windows", text)
        check(not page.run("window.asked.some((path) => path.startsWith('/api/v1/compare'))"), "it asked all the same")
    page.type("[name=a-kind]", "last")  # and is mended on the page
    page.type("[name=a-count]", "20")
    page.until("location.hash.includes('a=last%3A20m')")
    page.until("document.getElementById('no-windows') === null && document.querySelectorAll('.histogram').length === 7")
    shows(page, "#overlap", "Both windows have 30.0 s in common")


def asked_windows(page):
    path = page.until("window.asked.filter((path) => path.startsWith('/api/v1/compare')).at(-1)")
    query = dict(urllib.parse.parse_qsl(path.split("?", 1)[1]))
    return [seconds_of(query[name]) for name in ("from", "until", "with_from", "with_until")]


def presets_choose_windows(scene):
    for name, distance in (("before", 300), ("yesterday", 86400), ("week", 7 * 86400)):
        page = show(scene, "latency?range=5m&compare=yesterday" if name != "yesterday" else "latency?range=5m")
        page.until("document.querySelectorAll('.histogram').length === 7")
        page.run("window.asked.length = 0")
        page.click(f"[data-compare={name}]")
        begin, end, with_begin, with_end = asked_windows(page)
        near(f"the length of the windows of {name}", end - begin, 300)
        near(f"the distance of the windows of {name}", end - with_end, distance)
        near(f"the distance of the begins of {name}", begin - with_begin, distance)
        page.until(f"document.querySelector('[data-compare={name}]').getAttribute('aria-pressed') === 'true'")
    page = show(scene, "latency?range=5m&compare=deploy")
    marks = [seconds_of(one["at"]) for one in scene.scheduler.ask(f"marks?from={iso(time.time() - 7 * 86400)}")["marks"] if one["kind"] == "started"]
    begin, _, with_begin, with_end = asked_windows(page)
    check(abs(begin - max(marks)) < 1.1 and abs(with_end - min(marks)) < 1.1 and abs(with_end - with_begin - 300) < 1.1, "the windows are not beside the deploy")
    page.click("[data-compare=own]")  # begins with what was shown
    page.until("location.hash.includes('compare=own') && document.querySelectorAll('.own-window input[type=datetime-local]').length === 4")
    page = show(scene, "latency?compare=deploy", "window.answers['/api/v1/marks'] = () => ({marks: [], more: false});")
    shows(page, "#no-windows", "No agent has started, or got another version, option, provider or card, in the last 7 days")


def lanes_show_where_cards_lie(scene):
    page = show(scene, "fleet?open=prefill-0,prefill-1")
    of = "document.querySelector('[data-agent=\"prefill-0\"]')"
    page.until(f"{of}?.querySelectorAll('.lane').length === 4 && {of}.querySelectorAll('tr.gpu').length === 2")
    agent = next(one for one in scene.scheduler.ask("agents")["agents"] if one["name"] == "prefill-0")
    for node in (0, 1):
        rows = page.run(f"[...{of}.querySelectorAll('tbody[data-node=\"{node}\"] tr')].map((row) => row.dataset.gpu ?? row.dataset.rail ?? 'node')")
        gpus = [one["pci"] for one in agent["traits"]["gpus"] if one["node"] == node]
        cards = [one["name"] for one in agent["rails"] if one["traits"]["node"] == node]
        check(rows == ["node"] + gpus + cards, f"node {node} has {rows}")
    fastest = max(one["speed_bits_per_second"] for one in agent["rails"])
    for rail in agent["rails"]:
        script = f"{of}.querySelector('[data-rail=\"{rail['name']}\"] .lane')"
        length = page.run(f"{script}.getBoundingClientRect().width / {script}.parentElement.getBoundingClientRect().width")
        page.until(f"Math.abs(parseFloat({script}.style.width) - {100 * rail['speed_bits_per_second'] / fastest}) < 0.1", what=f"the lane of {rail['name']} is {length} of its room")
    used = page.until(f"(() => {{ const row = [...{of}.querySelectorAll('tr[data-rail]')].find((one) => parseFloat(one.querySelector('.lane i').style.width) >= 2); "
                      "return row && [parseFloat(row.querySelector('.lane i').style.width), parseFloat(row.cells[4].textContent)]; })()", 40)
    check(abs(used[0] - used[1]) <= 1, f"the fill is {used[0]} %, its text {used[1]} %")
    check("H100 · nearest: rdmap79s0, rdmap80s0" in page.run(f"{of}.querySelector('tr.gpu').textContent"), "the GPU's cards")
    # An agent that tells neither of nodes nor of GPUs has no rows of them.
    other = "document.querySelector('[data-agent=\"prefill-1\"]')"
    page.until(f"{other}?.querySelectorAll('.lane').length === 4")
    check(page.run(f"{other}.querySelectorAll('tr.gpu, tr.node').length") == 0, "rows of what nobody told of")


def a_large_fleet_fits_a_screen(scene):
    page = show(scene, "fleet", STREAM + "window.answers['/api/v1/rails/matrix'] = () => ({pairs: [], left_out: 0});")
    page.until("window.stream !== undefined")
    page.run("""(async () => { const summary = await (await fetch('/api/v1/summary')).json();
      const many = (i) => ({...agent('node-' + i, 0), host: 'host-' + (i >> 1), rails_up: i === 77 ? 31 : 32, state: i === 200 ? 'lost' : 'up', rail_bytes: Array(32).fill(0)});
      tell('snapshot', {summary, agents: Array.from({length: 256}, (_, i) => many(i))}); })()""")
    page.until("document.querySelectorAll('.host.line').length > 10")
    height, room, inner = page.run("[document.documentElement.scrollHeight, innerHeight, document.querySelectorAll('.agent').length]")
    check(height <= room, f"the page is {height} px high, the screen {room}")
    check(inner == 0, f"{inner} agents are open")
    hosts = page.run("[...document.querySelectorAll('.host')].slice(0, 3).map((host) => [host.dataset.host, host.dataset.state])")
    check(hosts[0] == ["host-100", "lost"] and hosts[1] == ["host-38", "down"] and hosts[2][1] == "up", f"the first hosts are {hosts}")
    shows(page, '[data-host="host-38"]', "63 of 64 rails up")
    page.click('[data-host="host-38"] .row-button')
    page.until("document.querySelectorAll('[data-host=\"host-38\"] .agent').length === 2 && location.hash.includes('host-38')")
    page.click('[data-host="host-38"] .row-button')
    page.until("document.querySelectorAll('.agent').length === 0")
    page.type("input[type=search]", "node-77")  # what a search leaves is open
    page.until("document.querySelectorAll('.host').length === 1 && document.querySelectorAll('.agent').length === 1")


def errors_show_examples(scene):
    page = show(scene, "errors")
    page.until("document.querySelectorAll('.error-group').length > 1 && document.querySelectorAll('.examples a').length > 1")
    second = page.run("document.querySelectorAll('.error-group')[1].dataset.code")
    page.click(f'[data-code="{second}"] .row-button')
    page.until(f"document.querySelectorAll('[data-code=\"{second}\"] .examples a').length > 1 && document.querySelectorAll('.examples').length === 2")
    shown = page.run(f"[...document.querySelectorAll('[data-code=\"{second}\"] .examples a')].map((one) => one.textContent)")
    check(all(scene.scheduler.ask(f"transfers/{one}")["reason"] == second for one in shown), f"the examples of {second} are {shown}")


if __name__ == "__main__":
    skip_without_browser("compared")
    sys.exit(run("compared", Scene(sys.argv[1]), [
        a_box_is_drawn_by_mouse, a_box_keeps_its_time, a_box_is_drawn_by_keys, a_box_that_cannot_be_read_is_told_of,
        two_chosen_windows_are_compared, a_choice_that_is_none_is_explained, presets_choose_windows,
        lanes_show_where_cards_lie, a_large_fleet_fits_a_screen, errors_show_examples]))
