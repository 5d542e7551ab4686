"""Goal: with many transfers stored, 10,000 in the table, and 8 hosts of 32 rails that tell of themselves four times a
second, the page has few row elements, no task of its main thread is long, and the thread has time left.
Method: a database that `kvrail bench query` fills (200,000 transfers; a campaign has 1,000,000), the fleet of hosts.c,
and traces of Chromium's. Times are of the processor, and a figure that is too high is taken again: another program on
the machine may make a task longer, but not three times.
usage: scale.py UI_HOSTS
"""
import os
import subprocess
import sys
import time

import scene as scenes
from pace import best_of
from scene import BIN, Scene, check, run, skip_without_browser
from tracing import Tracing, describe, longest

TRANSFERS = 1000000 if os.environ.get("KVRAIL_CAMPAIGN") else 200000
HOSTS, RAILS = 8, 32
ROWS, ROWS_IN_PAGE_MAX = 10000, 200
TASK_MS_MAX = 100
SHARE_MAX = 0.20
MEASURED_S = 3
WIDE = ",".join(f"wide-{role}-{number}" for role in ("prefill", "decode") for number in range(HOSTS // 2))
PAGES = {"overview?range=7d": "document.querySelectorAll('.plot canvas').length === 4",
         "transfers": "document.querySelectorAll('#transfers tr.row').length > 10",
         f"fleet?q=wide&open={WIDE}": f"document.querySelectorAll('.lanes tr[data-rail]').length === {HOSTS * RAILS}",
         "rails?agent=wide-prefill-0": f"document.querySelectorAll('.heatmap g').length === {RAILS}",
         "latency?range=7d": "document.querySelector('.histogram') !== null",
         "errors?range=7d": "document.querySelector('.error-group') !== null"}
COUNT = "Number(document.getElementById('row-count')?.dataset.rows ?? 0)"
# Notes when a page shows data for the first time.
WATCH = """window.dataAt = 0;
  const watch = () => { if (window.ready?.()) window.dataAt = performance.now(); else requestAnimationFrame(watch); };
  requestAnimationFrame(watch);"""
SCROLL = """(async () => { const place = document.querySelector('.rows');
  for (let i = 0; i < 30; i++) { place.scrollTop = place.scrollHeight * i / 30; await new Promise((resolve) => setTimeout(resolve, 50)); } })()"""


def fill(folder):
    began = time.monotonic()
    # Its verdict on the speed of answers is for another test.
    subprocess.run([f"{BIN}/kvrail", "bench", "query", "--transfers", str(TRANSFERS), "--rounds", "1", "--database", folder],
                   stdout=subprocess.DEVNULL, check=False)
    print(f"{TRANSFERS} transfers were stored in {time.monotonic() - began:.0f} s", flush=True)


def tab(scene):
    if scene.browser.pages:
        return scene.browser.pages[0]
    return scene.browser.page("about:blank?")


def everything_is_stored(scene):
    stored = sum(count for state, count in scene.scheduler.ask("summary")["states"].items() if state != "live")
    check(stored >= TRANSFERS, f"{stored} transfers are stored")
    scene.player = subprocess.Popen([sys.argv[1], scene.scheduler.host, "900", str(HOSTS), str(RAILS)])
    scenes.wait_for("the wide fleet", lambda: sum(agent["name"].startswith("wide-") and agent["state"] == "up"
                                                  for agent in scene.scheduler.ask("agents")["agents"]) == HOSTS)


def pages_show_data_soon(scene):
    for fragment in ("overview?range=7d", "transfers"):
        page = tab(scene)
        script = page.ask("Page.addScriptToEvaluateOnNewDocument", {"source": f"window.ready = () => {PAGES[fragment]};{WATCH}"})
        page.open(f"{scene.scheduler.base}#/{fragment}")
        page.until("window.dataAt > 0 && performance.getEntriesByName('first-contentful-paint').length > 0", 60)
        paint, data = page.run("[performance.getEntriesByName('first-contentful-paint')[0]?.startTime, window.dataAt]")
        page.ask("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})
        print(f"{fragment.split('?', maxsplit=1)[0]}: first paint after {paint or 0:.0f} ms, data after {data:.0f} ms", flush=True)
        check((paint or 0) > 0 and data > 0, f"painted after {paint} ms, and had data after {data} ms")


def share_of(page):
    """Of the main thread's time, while it follows the fleet."""
    before, began, wall = page.metrics(), time.monotonic(), MEASURED_S
    time.sleep(wall)
    after, wall = page.metrics(), time.monotonic() - began
    share = (after["TaskDuration"] - before["TaskDuration"]) / wall
    return share, f"{100 * share:.1f} % of the main thread"


def no_page_works_much(scene):
    for fragment, ready in PAGES.items():
        page, name = tab(scene), fragment.split("?", maxsplit=1)[0]

        def opened(page=page, fragment=fragment, ready=ready):
            tracing = Tracing(page)
            page.open(f"{scene.scheduler.base}#/{fragment}")
            page.until(ready, 60)
            time.sleep(1)
            task = longest(tracing.tasks())
            return task["ms"], "longest task " + describe(task)

        best_of(page, f"{name}, opened", opened, TASK_MS_MAX)
        best_of(page, f"{name}, following", lambda page=page: share_of(page), SHARE_MAX)


def ten_thousand_rows_cost_little(scene):
    def table(sort):
        page = tab(scene)
        tracing = Tracing(page)
        page.open(f"{scene.scheduler.base}#/transfers?sort={sort}")
        page.until(PAGES["transfers"], 60)
        page.until(f"document.getElementById('more')?.click(), {COUNT} >= {ROWS}", 60)
        page.run(SCROLL)
        elements = page.run("document.querySelectorAll('#transfers tr').length")
        page.run("document.querySelector('.rows').scrollTop = 16000")
        share, said = share_of(page)
        task, rows = longest(tracing.tasks()), page.run(COUNT)
        # Rows above them have come meanwhile: those that were read are there all the same.
        check(rows >= ROWS and page.run("document.getElementById('full') !== null"), f"of {ROWS} rows {rows} are left")
        check(0 < elements <= ROWS_IN_PAGE_MAX, f"{elements} row elements")
        check(share <= 2 * SHARE_MAX, said)
        return task["ms"], f"{elements} row elements, {said}, longest task {describe(task)}"

    for sort in ("", "time-down"):
        best_of(tab(scene), f"{ROWS} rows{' sorted' if sort else ''}", lambda sort=sort: table(sort), TASK_MS_MAX)


if __name__ == "__main__":
    skip_without_browser("scale")
    sys.exit(run("scale", Scene(fill=fill), [
        everything_is_stored, pages_show_data_soon, no_page_works_much, ten_thousand_rows_cost_little]))
