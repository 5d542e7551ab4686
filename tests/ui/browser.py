"""Drives headless Chromium over its debugging pipe: pages, scripts in them, keys, colours and pictures.

Messages are JSON, each ended by a zero byte, on the file descriptors 3 and 4 of the browser.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ANSWER_S = 60


def find_browser():
    return next((found for found in map(shutil.which, BROWSERS) if found), None)


class Browser:
    def __init__(self, program, width=1440, height=900):
        self.profile = tempfile.mkdtemp(prefix="kvrail-browser-")
        self.log = open(os.path.join(self.profile, "log"), "wb")
        down_read, self.down = os.pipe()
        self.up, up_write = os.pipe()

        def place_pipes():
            # Descriptors 3 and 4 may be pipes of this process: they are copied away first.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (down_read, up_write)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             f"--window-size={width},{height}", f"--user-data-dir={self.profile}/profile", "--remote-debugging-pipe",
             "about:blank"],
            close_fds=False, preexec_fn=place_pipes, stdout=self.log, stderr=self.log)
        os.close(down_read)
        os.close(up_write)
        self.buffer = b""
        self.number = 0
        self.events = []
        self.pages = []

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.down)
        os.close(self.up)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _read(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.up], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.up, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, parameters=None, session=None, seconds=ANSWER_S):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.down, data):]
        until = time.monotonic() + seconds
        while True:
            answer = self._read(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def take_events(self, until):
        """Events of every tab, at least one."""
        if not self.events:
            self.events.append(self._read(until))
        taken, self.events = self.events, []
        return taken

    def page(self, address):
        self.pages.append(Page(self, address))
        return self.pages[-1]


class Page:
    """A tab. Errors of its scripts and what its policy refused are collected in `complaints`."""

    def __init__(self, browser, address):
        self.browser = browser
        self.complaints = []
        target = browser.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.target = target
        self.session = browser.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Runtime", "Page", "Log", "Network", "Performance"):
            self.ask(f"{domain}.enable")
        self.open(address)

    def ask(self, method, parameters=None, seconds=ANSWER_S):
        return self.browser.ask(method, parameters, self.session, seconds)

    def close(self):
        self.browser.ask("Target.closeTarget", {"targetId": self.target})
        self.browser.pages.remove(self)

    def describe(self):
        return self.run("[location.href, document.getElementById('status')?.textContent, document.querySelector('main')?.innerText.slice(0, 2500)].join('\\n')")

    def open(self, address):
        self.ask("Page.navigate", {"url": "about:blank"})  # a fragment alone would load nothing
        self.ask("Page.navigate", {"url": address})
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script, seconds=ANSWER_S):
        answer = self.ask("Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True,
                                               "userGesture": True}, seconds)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details.get("text")))
        return answer["result"].get("value")

    def until(self, script, seconds=20, what=None):
        """Waits until the script is true, and returns its value; raises AssertionError otherwise."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what or script}")
            time.sleep(0.05)

    def click(self, selector):
        self.until(f"document.querySelector({json.dumps(selector)}) !== null", what=f"there is no {selector}")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def type(self, selector, text):
        self.run(f"""(() => {{ const input = document.querySelector({json.dumps(selector)}); input.focus();
            input.value = {json.dumps(text)};
            for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind, {{bubbles: true}})); }})()""")

    def key(self, key, shift=False):
        code = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        names = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        common = {"key": key, "windowsVirtualKeyCode": names.get(key, ord(key[0]) if len(key) == 1 else 0),
                  "modifiers": 8 if shift else 0}
        self.ask("Input.dispatchKeyEvent", {"type": "keyDown", "text": code, **common})
        self.ask("Input.dispatchKeyEvent", {"type": "keyUp", **common})

    def mouse(self, kind, x, y):
        """kind: mousePressed, mouseMoved or mouseReleased, of the left button."""
        self.ask("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1,
                                              "buttons": 0 if kind == "mouseReleased" else 1})

    def theme(self, name):
        self.ask("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def width(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride",
                 {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", {"format": "png"})["data"]))

    def metrics(self):
        return {one["name"]: one["value"] for one in self.ask("Performance.getMetrics")["metrics"]}

    def take_complaints(self):
        """Exceptions, errors in the log, and requests to other hosts, since the last call."""
        found, rest = [], []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                rest.append(event)
                continue
            of = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(of["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event["method"] == "Log.entryAdded" and of["entry"]["level"] == "error" and \
                    of["entry"]["source"] != "network":
                found.append(of["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                url = of["request"]["url"]
                if not url.startswith(("http://127.0.0.1", "data:", "blob:", "about:")):
                    found.append(f"a request to {url}")
        self.browser.events = rest
        return found
