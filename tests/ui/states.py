"""Goal: the page says how it stands with the scheduler: one that hangs, one that restarts, one that has no stream
to give, one that nothing is told, and one that wants a token; and it acts only for those who may.
Method: real schedulers that are stopped, frozen and started again, and the fleet of generate.c.
usage: states.py UI_GENERATE
"""
import subprocess
import sys
import urllib.request

from scene import BIN, Scene, check, run, skip_without_browser, wait_for

STATUS = "document.getElementById('status')?.textContent"
shared = {}


def follows(page, seconds=30):
    page.until(f"{STATUS}.startsWith('following')", seconds)


def a_stuck_transfer_is_cancelled(scene):
    scene.play()
    stuck = wait_for("the stuck transfer", lambda: scene.scheduler.ask("transfers?request=chatcmpl-stuck")["transfers"])[0]["id"]
    page = shared["page"] = scene.browser.page(f"{scene.scheduler.base}#/transfers?open={stuck}")
    page.click(".detail .action button")
    page.click(".detail .action button.danger")
    page.until("document.querySelector('.detail .action [role=status]').textContent.startsWith('Done')")
    entry = scene.scheduler.ask("audit?limit=1")["audit"][0]
    check(entry["action"] == "cancel" and entry["outcome"] == "done", f"the audit has {entry}")


def an_agent_is_drained(scene):
    page = shared["page"]
    page.open(f"{scene.scheduler.base}#/fleet?open=prefill-0")
    page.click('[data-agent="prefill-0"] .action button')
    page.click('[data-agent="prefill-0"] .action button.danger')
    page.until("document.querySelector('[data-agent=\"prefill-0\"] .action [role=status]').textContent.startsWith('Done')")
    actions = [entry["action"] for entry in scene.scheduler.ask("audit?limit=5")["audit"]]
    check("drain" in actions, f"the audit has {actions}")


def a_frozen_scheduler_is_told_of(scene):
    page = shared["page"]
    page.open(f"{scene.scheduler.base}#/overview")
    follows(page)
    page.until("document.getElementById('rate').textContent !== '–'")
    scene.scheduler.freeze(True)
    page.until(f"{STATUS}.startsWith('no answer from the scheduler for')", 30)
    page.until("document.querySelector('.banner.bad') !== null && document.getElementById('rate').textContent !== '–'")
    scene.scheduler.freeze(False)
    follows(page)
    page.until("document.querySelector('.banner.bad') === null")


def a_restart_is_survived(scene):
    page = shared["page"]
    page.run("window.same = true")
    scene.scheduler.restart()
    follows(page, 60)
    check(page.run("window.same") is True, "the page was loaded again")
    events = scene.scheduler.ask("summary")["events"]
    wait_for("new events", lambda: scene.scheduler.ask("summary")["events"] > events)
    page.open(f"{scene.scheduler.base}#/transfers")
    page.until("document.querySelectorAll('#transfers tr.row').length > 10")


def polling_replaces_the_stream(scene):
    page = shared["page"]
    page.ask("Network.setBlockedURLs", {"urls": ["*/api/v1/stream"]})
    page.open(f"{scene.scheduler.base}#/overview")
    page.until(f"{STATUS}.includes('without the stream')")
    page.until("document.getElementById('rate').textContent !== '–'")
    page.ask("Network.setBlockedURLs", {"urls": []})
    page.until(f"{STATUS}.startsWith('following') && !{STATUS}.includes('without')", 40)


def pausing_holds_everything(scene):
    page = shared["page"]
    page.open(f"{scene.scheduler.base}#/transfers")
    page.until("document.querySelectorAll('#transfers tr.row').length > 10")
    page.click("#pause")
    # The stuck transfer stays first.
    first = "[...document.querySelectorAll('#transfers tr.row')].slice(0, 5).map((row) => row.dataset.key).join()"
    page.run("new Promise((resolve) => setTimeout(resolve, 1500))")
    before = page.run(first)
    newest = scene.scheduler.ask("transfers?limit=1")["transfers"][0]["id"]
    wait_for("a new transfer", lambda: scene.scheduler.ask("transfers?limit=1")["transfers"][0]["id"] != newest)
    page.run("new Promise((resolve) => setTimeout(resolve, 1500))")
    check(page.run(first) == before, "rows change although the page is paused")
    page.click("#pause")
    page.until(f"{first} !== '{before}'")


def silence_is_told(scene):
    page = shared["page"]
    scene.stop_playing()
    page.open(f"{scene.scheduler.base}#/overview")
    page.until(f"/^last event \\d+ s ago/.test({STATUS})", 30)


def a_person_signs_in_and_out(scene):
    tokens = f"{scene.work}/tokens"
    token = subprocess.run([f"{BIN}/kvrail", "token", "eve", "read", "--append", tokens], check=True,
                           capture_output=True, text=True).stdout.strip()
    guarded = scene.add_scheduler("guarded", "--token-file", tokens)
    page = scene.browser.page(guarded.base)
    page.until("document.getElementById('sign-in') !== null")
    check(page.text("#sign-in-why") == "", "it begins with: " + page.text("#sign-in-why"))
    check(page.run("document.querySelector('.tiles') === null"), "data before the sign-in")

    def enter(text):
        page.run(f"document.getElementById('token').value = '{text}'; document.getElementById('sign-in').requestSubmit()")

    enter("kvrail_0")
    page.until("document.getElementById('sign-in-why').textContent.includes('not known')")
    enter(token)
    page.until("document.getElementById('sign-in') === null && document.getElementById('rate') !== null")
    check(page.run("document.cookie") == "", "a script can read the cookie")
    page.until("document.getElementById('who').textContent === 'eve may read'")
    check(page.run("fetch('/api/v1/requests/r/abandon', {method: 'POST', headers: {'X-Kvrail-Request': '1'}}).then((answer) => answer.status)") == 403,
          "a reader may act")
    # A reader is offered no action.
    player = subprocess.Popen([scene.generate, guarded.host, "600", "5"])
    page.run("location.hash = '#/fleet?open=prefill-0'")
    page.until("document.querySelectorAll('[data-agent=\"prefill-0\"] .lane').length === 4 && document.querySelectorAll('.agent').length >= 4", 30)
    check(page.run("document.querySelectorAll('.action').length") == 0, "a reader is offered an action on an agent")
    stuck = wait_for("the stuck transfer", lambda: guarded.ask("transfers?request=chatcmpl-stuck", token)["transfers"])[0]["id"]
    page.run(f"location.hash = '#/transfers?open={stuck}'")
    page.until("document.querySelector('.detail .facts') !== null && document.querySelectorAll('#transfers tr.row').length > 3")
    check(page.run("document.querySelectorAll('.action').length") == 0, "a reader is offered an action on a transfer")
    player.kill()
    player.wait()
    page.click("#sign-out")
    page.until("document.getElementById('sign-in-why')?.textContent === 'You have signed out.'")
    check(page.run("fetch('/api/v1/summary').then((answer) => answer.status)") == 401, "still signed in after the sign-out")
    check(not page.take_complaints(), "the browser complains")


def the_policy_is_strict(scene):
    for path in ("", "LICENSES.txt"):
        with urllib.request.urlopen(scene.scheduler.base + path, timeout=10) as answer:
            policy = answer.headers["Content-Security-Policy"]
            check(policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'") and
                  "unsafe" not in policy and "*" not in policy, f"the policy is {policy}")
            check(answer.headers["Cache-Control"] == "no-cache", "the page may be kept")
            body = answer.read().decode()
    check("preact" in body and "uplot" in body and "MIT" in body, "the licences are not there")


if __name__ == "__main__":
    skip_without_browser("states")
    sys.exit(run("states", Scene(sys.argv[1]), [
        a_stuck_transfer_is_cancelled, an_agent_is_drained, a_frozen_scheduler_is_told_of, a_restart_is_survived,
        polling_replaces_the_stream, pausing_holds_everything, silence_is_told, a_person_signs_in_and_out,
        the_policy_is_strict]))
