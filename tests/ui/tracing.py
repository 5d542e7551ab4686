"""What the main thread of a page works: each task of a trace of Chromium's, with the processor's time that it took."""
import time

CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "v8", "blink.user_timing"]
PARTS_MAX = 6


MARK = "traced"


class Tracing:
    """Between the beginning and `tasks` everything that the main thread of the page does is written down."""

    def __init__(self, page):
        self.page, self.browser = page, page.browser
        self.browser.ask("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": {
            "recordMode": "recordUntilFull", "includedCategories": CATEGORIES, "excludedCategories": ["*"]}})

    def tasks(self):
        """Ends it. Each task: {"ms": of the processor, "wall_ms", "parts": what it did, longest first}."""
        self.page.run(f"performance.mark('{MARK}')")  # says which process is the page's
        self.browser.ask("Tracing.end")
        until, rest, events, complete = time.monotonic() + 60, [], [], False
        while not complete:
            for event in self.browser.take_events(until):
                if event["method"] == "Tracing.dataCollected":
                    events += event["params"]["value"]
                elif event["method"] == "Tracing.tracingComplete":
                    complete = True
                else:
                    rest.append(event)
        self.browser.events = rest
        return tasks_of(events)


def tasks_of(events):
    mark = next(event for event in events if event["name"] == MARK)
    of_page = [event for event in events if event.get("ph") == "X" and (event["pid"], event["tid"]) == (mark["pid"], mark["tid"])]
    tasks = []
    for event in sorted(of_page, key=lambda event: event["ts"]):
        # Where the clock of the thread is not to be had, the time by the clock is what there is.
        ms = event.get("tdur", event.get("dur", 0)) / 1000
        if event["name"] == "RunTask":
            tasks.append({"ms": ms, "wall_ms": event["dur"] / 1000, "parts": {}, "ends": event["ts"] + event["dur"]})
        elif tasks and event["ts"] < tasks[-1]["ends"]:
            tasks[-1]["parts"][event["name"]] = tasks[-1]["parts"].get(event["name"], 0) + ms
    return tasks


def longest(tasks):
    return max(tasks, key=lambda task: task["ms"], default={"ms": 0, "wall_ms": 0, "parts": {}})


def describe(task):
    parts = sorted(task["parts"].items(), key=lambda part: -part[1])[:PARTS_MAX]
    return f"{task['ms']:.0f} ms of the processor ({', '.join(f'{name} {ms:.0f}' for name, ms in parts)})"
