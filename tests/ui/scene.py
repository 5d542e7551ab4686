"""A scheduler with a small fleet that the generator plays, and a browser: what every test of the page begins with."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

from browser import Browser, find_browser

BIN = os.environ.get("KVRAIL_BIN_DIR", "")


def wait_for(what, true_now, seconds=60):
    end = time.monotonic() + seconds
    while True:
        value = true_now()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Scheduler:
    def __init__(self, folder, *options, listen="127.0.0.1:0"):
        self.folder, self.options = folder, options
        self.start(listen)

    def start(self, listen):
        os.makedirs(self.folder, exist_ok=True)
        port_file = os.path.join(self.folder, "port")
        if os.path.exists(port_file):
            os.unlink(port_file)
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [f"{BIN}/kvrail-scheduler", "--insecure", "--listen", listen, "--port-file", port_file, "--state-dir",
                 os.path.join(self.folder, "state"), *self.options], stderr=log)
        wait_for("the scheduler's port", lambda: os.path.exists(port_file) and os.path.getsize(port_file) > 0)
        with open(port_file, encoding="ascii") as file:
            self.host = f"127.0.0.1:{file.read().strip()}"
        self.base = f"http://{self.host}/"

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def restart(self):
        self.stop()
        self.start(self.host)

    def freeze(self, frozen):
        self.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def ask(self, path, token=None):
        request = urllib.request.Request(f"{self.base}api/v1/{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


class Scene:
    """With `generate`, the fleet of tests/ui/generate.c plays until the end. `fill` puts something into the folder of
    the database before the scheduler starts."""

    def __init__(self, generate=None, width=1440, height=900, fill=None):
        self.work = tempfile.mkdtemp(prefix="kvrail-ui-")
        if fill:
            os.makedirs(os.path.join(self.work, "first", "state"))
            fill(os.path.join(self.work, "first", "state"))
        self.generate, self.player = generate, None
        self.schedulers = []
        self.scheduler = self.add_scheduler("first")
        self.browser = Browser(find_browser(), width, height)

    def add_scheduler(self, name, *options):
        self.schedulers.append(Scheduler(os.path.join(self.work, name), *options))
        return self.schedulers[-1]

    def play(self, seconds=600, wait=True):
        self.player = subprocess.Popen([self.generate, self.scheduler.host, str(seconds), "5"])
        if wait:
            wait_for("transfers that failed", lambda: self.scheduler.ask("transfers?state=failed&limit=1")["transfers"])
            wait_for("a lost peer", lambda: any(error["code"] == "peer_lost" for error in
                                                self.scheduler.ask("errors")["errors"]))

    def mend_rail(self):
        """The rail of prefill-1 that is down comes back."""
        self.player.send_signal(signal.SIGUSR1)

    def stop_playing(self):
        if self.player:
            self.player.kill()
            self.player.wait()
            self.player = None

    def close(self):
        self.stop_playing()
        self.browser.close()
        for scheduler in self.schedulers:
            scheduler.freeze(False)
            scheduler.process.kill()
            scheduler.process.wait()
        shutil.rmtree(self.work, ignore_errors=True)


def check(true, what):
    if not true:
        raise AssertionError(what)


def run(name, scene, cases):
    """Runs each case with the scene; prints and counts; the exit status is for ctest."""
    failed = 0
    for case in cases:
        began = time.monotonic()
        try:
            case(scene)
            print(f"ok: {case.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception:  # a case that breaks in any way has failed
            failed += 1
            print(f"not ok: {case.__name__}: {traceback.format_exc(limit=4)}", flush=True)
            for page in scene.browser.pages:
                print(page.describe(), flush=True)
    scene.close()
    print(f"{name}: {len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def skip_without_browser(name):
    if not find_browser():
        print(f"{name}: skipped, there is no Chromium")
        sys.exit(77)
