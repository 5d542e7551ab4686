"""Goal: with real agents the page shows what happens: transfers while they live, their layers and rails afterwards, a
cancel that the page gives, a scheduler that is killed and comes back, and agents that fall silent.
Method: a scheduler, a prefill-agent and a decode-agent over tcp on loopback, and engines of `kvrail replay` that move
pages all the time; scripts that click in headless Chromium.
usage: live.py
"""
import os
import signal
import subprocess
import sys

from scene import BIN, Scene, check, run, skip_without_browser, wait_for

LAYERS = 8
ROWS = "document.querySelectorAll('#transfers tr.row')"
STATUS = "document.getElementById('status')"
shared = {}


class Programs:
    """Those that move data. Each has a log in the scene's folder, and ends with the scene."""

    def __init__(self, scene):
        self.work, self.all = scene.work, {}

    def path(self, name):
        return os.path.join(self.work, name)

    def start(self, name, *command, **options):
        with open(self.path(f"{name}.log"), "ab") as log:
            self.all[name] = subprocess.Popen(command, stdout=log, stderr=log, **options)
        return self.all[name]

    def agent(self, role, scheduler, *options):
        self.start(role, f"{BIN}/{role}-agent", "--insecure", "--name", f"{role}-0", "--engine-socket", self.path(f"{role}.sock"),
                   "--provider", "tcp", "--rail", "127.0.0.1", "--rail", "127.0.0.2", "--scheduler", scheduler,
                   "--state-dir", self.path(role), "--spans-every", "1", *options)
        wait_for(f"the socket of the {role}-agent", lambda: os.path.exists(self.path(f"{role}.sock")))

    def log(self, name):
        with open(self.path(f"{name}.log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def stop(self):
        for process in self.all.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def begin(scene):
    programs = shared["programs"] = Programs(scene)
    programs.agent("prefill", scene.scheduler.host, "--listen", "127.0.0.1:0", "--port-file", programs.path("port"))
    wait_for("the port of the prefill-agent", lambda: os.path.exists(programs.path("port")) and os.path.getsize(programs.path("port")) > 0)
    with open(programs.path("port"), encoding="ascii") as file:
        shared["source"] = f"127.0.0.1:{file.read().strip()}"
    programs.agent("decode", scene.scheduler.host)
    # Layers become ready slowly, so that some transfers always live.
    programs.start("replay", f"{BIN}/kvrail", "replay", "--source-socket", programs.path("prefill.sock"), "--target-socket",
                   programs.path("decode.sock"), "--source-agent", shared["source"], "--requests", "20000", "--concurrency", "6",
                   "--speed", "10", "--prefill-tokens-per-s", "1000", "--layers", str(LAYERS), "--kv-bytes-per-token", "2k",
                   "--pool-bytes", "256M", "--json", programs.path("figures.json"))


def show(scene, fragment):
    if "page" not in shared:
        shared["page"] = scene.browser.page("about:blank?")
    shared["page"].open(f"{scene.scheduler.base}#/{fragment}")
    return shared["page"]


def done_now(scene):
    return scene.scheduler.ask("summary")["states"].get("done", 0)


def rows_appear_while_they_live(scene):
    begin(scene)
    page = show(scene, "transfers?state=live")
    page.until(f"{ROWS}.length > 0", what="no live transfer is shown")
    page.until(f"[...{ROWS}].every((row) => row.textContent.includes('prefill-0 → decode-0'))")
    first = page.run(f"{ROWS}[0].dataset.key")
    page.until(f"[...{ROWS}].every((row) => row.dataset.key !== '{first}')", 40, "a transfer that has ended stays among the live ones")
    page.click('[data-filter="done"]')
    page.until(f"{ROWS}.length > 3 && [...{ROWS}].every((row) => row.textContent.includes('done'))")


def every_page_has_their_data(scene):
    page = show(scene, "overview")
    page.until("parseFloat(document.getElementById('rate').textContent) > 0", what="there is no throughput")
    page.until("document.getElementById('verdict') !== null && document.querySelectorAll('.plot canvas').length > 0")
    show(scene, "fleet")
    page.until("document.querySelectorAll('.lane[data-state=\"up\"]').length === 4", what="not two rails of each agent are up")
    show(scene, "rails?agent=prefill-0")
    page.until("document.querySelectorAll('.heatmap g').length === 2 && document.querySelector('.heatmap .heat-8') !== null")
    show(scene, "latency")
    page.until("document.querySelector('.histogram') !== null")
    show(scene, "errors")
    failed = scene.scheduler.ask("errors")["errors"]  # of a busy machine there may be some
    page.until("document.querySelector('.error-group') !== null" if failed else "document.body.textContent.includes('No transfer has failed')")
    show(scene, "transfers?agent=decode-0&rail=1")
    page.until(f"{ROWS}.length > 0")
    show(scene, "transfers?agent=nobody")
    page.until("document.getElementById('transfers-empty')?.textContent.includes('No transfer matches agent nobody')")


def a_row_opens_its_layers_and_rails(scene):
    page = show(scene, "transfers?state=done")
    page.until(f"{ROWS}.length > 0")
    page.click("#transfers tr.row")
    page.until(f"document.querySelectorAll('.timeline .layer').length === {LAYERS}", what="there is not a row for each layer")
    rails = page.run("[...document.querySelectorAll('.rail-shares')].map((one) => one.textContent)")
    check(len(rails) == 2 and all("writes" in text for text in rails), f"the rails say {rails}")
    check(page.run("document.querySelectorAll('.timeline .critical').length") == 1, "the critical path is not marked")


def a_live_transfer_is_cancelled(scene):
    programs = shared["programs"]
    # One that stays after its first layer.
    programs.start("pair", os.path.join(BIN, "../tests/pair"), programs.path("prefill.sock"), programs.path("decode.sock"),
                   shared["source"], "hold", stdin=subprocess.PIPE)
    held = wait_for("the held transfer", lambda: [one for one in scene.scheduler.ask("transfers?request=pair")["transfers"]
                                                  if one["live"] and one["target"]["agent"]])[0]["id"]
    page = show(scene, "transfers?state=live&request=pair")
    page.until(f"{ROWS}.length === 1")
    page.click(f'tr[data-key="{held}"]')
    page.click(".detail .action button")
    page.click(".detail .action button.danger")
    page.until("document.querySelector('.detail header .state').textContent.includes('cancelled')", 30, "it does not end cancelled")
    page.until("document.querySelector('.why').textContent.includes('cancelled by an operator')")
    page.until(f"{ROWS}.length === 0", what="it is still among the live ones")
    programs.all["pair"].stdin.close()
    programs.all["pair"].wait(20)
    check("target" in programs.log("pair") and "cancelled" in programs.log("pair"), f"its engines heard {programs.log('pair')}")


def a_killed_scheduler_comes_back(scene):
    page = show(scene, "transfers")
    page.until(f"{STATUS}.textContent.startsWith('following')")
    page.run("window.same = true")
    before, replay = done_now(scene), shared["programs"].all["replay"]
    scene.scheduler.process.kill()
    scene.scheduler.process.wait()
    page.until(f"{STATUS}.textContent.startsWith('no answer from the scheduler') && {STATUS}.dataset.kind === 'bad'")
    page.until("document.querySelector('.banner.bad')?.textContent.includes('does not answer')")
    check(page.run(f"{ROWS}.length") > 0, "the rows have gone with the scheduler")
    scene.scheduler.start(scene.scheduler.host)
    page.until(f"{STATUS}.textContent.startsWith('following') && document.querySelector('.banner.bad') === null", 40)
    check(replay.poll() is None, "the replay has ended with the scheduler")
    wait_for("more transfers that are done", lambda: done_now(scene) > before + 3)
    newest = scene.scheduler.ask("transfers?state=done&limit=1")["transfers"][0]["id"]
    page.until(f"document.querySelector('tr[data-key=\"{newest}\"]') !== null", what="what is newest is not shown")
    check(page.run("window.same") is True, "the page was loaded again")


def silent_agents_are_stale(scene):
    page = show(scene, "overview")
    page.until(f"{STATUS}.dataset.kind === 'good'")
    agents = [shared["programs"].all[role] for role in ("prefill", "decode")]
    for agent in agents:
        agent.send_signal(signal.SIGSTOP)
    page.until(f"{STATUS}.dataset.kind === 'stale' && /2 agents lost/.test({STATUS}.textContent)", 40)
    show(scene, "fleet")
    page.until("document.querySelectorAll('.agent[data-state=\"lost\"]').length === 2")
    for agent in agents:
        agent.send_signal(signal.SIGCONT)
    page.until(f"{STATUS}.dataset.kind === 'good' && document.querySelectorAll('.agent[data-state=\"up\"]').length === 2", 30)
    check(not page.take_complaints(), "the browser complains")


if __name__ == "__main__":
    skip_without_browser("live")
    if not all(os.access(f"{BIN}/{program}", os.X_OK) for program in ("kvrail", "prefill-agent", "decode-agent", "../tests/pair")):
        print("live: skipped, the agents were not built")
        sys.exit(77)
    stage = Scene()
    try:
        status = run("live", stage, [
            rows_appear_while_they_live, every_page_has_their_data, a_row_opens_its_layers_and_rails, a_live_transfer_is_cancelled,
            a_killed_scheduler_comes_back, silent_agents_are_stale])
    finally:
        if "programs" in shared:
            shared["programs"].stop()
    sys.exit(status)
