"""Goal: every page, in both themes, has no violation of accessibility that axe-core finds, and fits its screen, a
phone's too. Pictures of all of them are left in build/screenshots.
Method: the fleet of generate.c, and axe-core in each page of headless Chromium.
usage: looks.py UI_GENERATE
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from runs import choose, make_runs
from scene import Scene, check, run, skip_without_browser, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AXE = f"{ROOT}/build/web-ui/node_modules/axe-core/axe.min.js"
PICTURES = f"{ROOT}/build/screenshots"
READY = {
    "overview": "document.querySelectorAll('.plot canvas').length === 4 && document.getElementById('verdict') !== null",
    "transfers": "document.querySelectorAll('#transfers tr.row').length > 10",
    "detail": "document.querySelector('.timeline') !== null && document.querySelector('.detail .facts') !== null",
    "failed": "document.querySelector('#next')?.textContent.length > 20",
    "fleet": "document.querySelector('#matrix') !== null && document.querySelector('.lanes') !== null",
    "rails": "document.querySelector('.heatmap') !== null",
    "box": "document.querySelectorAll('#differs tbody tr').length > 3 && document.querySelector('.heatmap .box') !== null",
    "latency": "document.querySelectorAll('.histogram').length === 7",
    "windows": "document.querySelectorAll('#stage-differences li').length === 7 && document.querySelectorAll('.own-window').length === 2",
    "no-windows": "document.getElementById('no-windows')?.textContent.length > 20",
    "errors": "document.querySelectorAll('.examples a').length > 1",
    "replay": "document.getElementById('explained') !== null",
    "changes": "document.querySelectorAll('table.changes').length === 1",
    "curves": "(document.querySelector('.distributions')?.scrollIntoView(), document.querySelectorAll('.curve').length > 0)",
    "beside": "document.querySelectorAll('table.changes').length === 2",
    "refused": "document.querySelector('#opener [role=alert]') !== null",
}
# Files that are opened on the Replay page.
FILES = {
    "changes": ["changes.json"], "curves": ["changes.json"], "beside": ["changes.json", "back.json"], "refused": ["a.kvtrace"],
}


def load_axe():
    if not os.path.exists(AXE):
        with tempfile.TemporaryDirectory() as folder:
            built = subprocess.run(["sh", f"{ROOT}/web-ui/build.sh", folder], check=False)
        if built.returncode == 77:
            print("looks: skipped, axe-core is not to be had")
            sys.exit(77)
    with open(AXE, encoding="utf-8") as file:
        return file.read()


def violations(page, axe):
    page.run(axe + "; true")
    found = page.run("axe.run(document, {resultTypes: ['violations']}).then((result) => JSON.stringify(result.violations.map((one) => "
                     "[one.id, one.nodes.length, one.nodes[0].html.slice(0, 160), one.nodes[0].failureSummary.slice(0, 200)])))")
    return json.loads(found)


def fragments(scene):
    transfers = scene.scheduler.ask("transfers?state=done&limit=200")["transfers"]
    sampled = next(one["id"] for one in transfers if int(one["id"], 16) % 4 == 0)
    failed = scene.scheduler.ask("transfers?state=failed&limit=1")["transfers"][0]["id"]
    def ago(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
    wait_for("bytes of rails", lambda: scene.scheduler.ask("rollups?by=rail&agent=prefill-1")["series"])
    return {
        **{name: name for name in READY},
        **{name: "replay" for name in FILES},
        "detail": f"transfers?open={sampled}",
        "failed": f"transfers?state=failed&open={failed}",
        "box": f"rails?agent=prefill-1&range=5m&box=1-2@{ago(20)}/{ago(0)}",
        "windows": f"latency?compare=own&a={ago(30)}/{ago(-20)}&b=last:10m",
        "no-windows": f"latency?compare=own&a={ago(2)}/{ago(9)}",
    }


def show(scene, page, name, fragment):
    page.open(f"{scene.scheduler.base}#/{fragment}")
    if name in FILES:
        choose(page, *(os.path.join(scene.work, "runs", file) for file in FILES[name]))
    page.until(READY[name])


def no_page_breaks_a_rule(scene):
    axe = load_axe()
    os.makedirs(PICTURES, exist_ok=True)
    scene.play()
    make_runs(os.path.join(scene.work, "runs"))
    page, bad = scene.browser.page(scene.scheduler.base), []
    for name, fragment in fragments(scene).items():
        page.theme("light")
        show(scene, page, name, fragment)
        for theme in ("light", "dark"):
            page.theme(theme)
            page.run("new Promise((resolve) => setTimeout(resolve, 400))")
            page.picture(f"{PICTURES}/{name}-{theme}.png")
            bad += [f"{name}, {theme}: {one}" for one in violations(page, axe)]
    page.close()
    check(not bad, "axe-core finds\n" + "\n".join(bad))


def a_phone_shows_every_page(scene):
    page = scene.browser.page(scene.scheduler.base)
    page.width(390, 844)
    wide = []
    for name, fragment in fragments(scene).items():
        show(scene, page, name, fragment)
        page.picture(f"{PICTURES}/{name}-phone.png")
        width = page.run("document.documentElement.scrollWidth")
        if width > 390:
            wide.append(f"{name} is {width} px wide")
    page.close()
    check(not wide, ", ".join(wide))


if __name__ == "__main__":
    skip_without_browser("looks")
    load_axe()
    sys.exit(run("looks", Scene(sys.argv[1]), [no_page_breaks_a_rule, a_phone_shows_every_page]))
