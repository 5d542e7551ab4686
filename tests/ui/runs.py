"""Files of runs as the page's own users make them: requests that are played in virtual time over two fleets, their
traces, and what `kvrail compare` and `kvrail trace export` write of these."""
import json
import os
import subprocess

from scene import BIN

REQUESTS = 200
RAILS = {"a": "8x100G", "b": "2x100G", "same": "8x100G"}


def tool(folder, *arguments):
    subprocess.run([f"{BIN}/kvrail", *arguments], cwd=folder, check=True, capture_output=True, timeout=120)


def make_runs(folder):
    """In the folder: *.kvtrace, changes.json (a to b), same.json (a to the same again), and *.summary.json."""
    os.makedirs(folder, exist_ok=True)
    tool(folder, "trace", "synth", "--requests", str(REQUESTS), "--seed", "3", "--output", "requests.jsonl")
    for name, rails in RAILS.items():
        tool(folder, "replay", "--virtual", "--trace", "requests.jsonl", "--hosts", "2:2", "--rails", rails, "--record", f"{name}.kvtrace")
    tool(folder, "compare", "a.kvtrace", "b.kvtrace", "--json", "changes.json")
    tool(folder, "compare", "b.kvtrace", "a.kvtrace", "--json", "back.json")
    tool(folder, "compare", "a.kvtrace", "same.kvtrace", "--json", "same.json")
    for name in ("a", "b"):
        tool(folder, "trace", "export", "--to", "summary", f"{name}.kvtrace", "--output", f"{name}.summary.json")
    return folder


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def choose(page, *paths):
    """As a person chooses files in the page's field."""
    page.until("document.getElementById('replay-files') !== null")
    root = page.ask("DOM.getDocument")["root"]["nodeId"]
    field = page.ask("DOM.querySelector", {"nodeId": root, "selector": "#replay-files"})["nodeId"]
    page.ask("DOM.setFileInputFiles", {"files": [os.path.abspath(path) for path in paths], "nodeId": field})
