"""What the journals of a round's replays say of each request, and what is judged of it."""
import json
import math


class Side:
    """One request at one engine: one publish, or one fetch."""

    def __init__(self, engine, request, opened_at, pages):
        self.engine, self.request, self.opened_at, self.pages = engine, request, opened_at, pages
        self.failing_at = self.ended_at = None
        self.status = ""

    def open_at(self, moment):
        return self.opened_at <= moment and (self.ended_at is None or self.ended_at > moment)


class Journal:
    def __init__(self, path):
        self.path = path
        self.sides, self.finished_pages = {}, {}
        self.offset = 0
        self.rest = ""

    def read(self):
        """Takes the lines that were written since the last call."""
        try:
            with open(self.path, encoding="utf-8") as file:
                file.seek(self.offset)
                text = file.read()
                self.offset = file.tell()
        except FileNotFoundError:
            return self
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self.take(json.loads(line))
        return self

    def take(self, entry):
        what, engine = entry["what"], entry["engine"]
        if what == "finished":
            self.finished_pages[engine] = entry["pages"]
        if "request" not in entry:
            return
        key = engine, entry["request"]
        if what == "opened":
            self.sides[key] = Side(engine, entry["request"], entry["at_s"], entry["pages"])
            return
        side = self.sides.get(key)
        if side is None or side.ended_at is not None:
            return
        if what == "failing" and side.failing_at is None:
            side.failing_at = entry["at_s"]
        if entry.get("terminal"):
            side.ended_at, side.status = entry["at_s"], entry["status"]
            side.failing_at = side.failing_at or entry["at_s"]

    def open_sides(self, moment):
        return [side for side in self.sides.values() if side.open_at(moment)]

    def ended_requests(self):
        """Requests that have ended on both sides."""
        ended = {}
        for side in self.sides.values():
            ended.setdefault(side.request, []).append(side.ended_at is not None)
        return sum(len(both) == 2 and all(both) for both in ended.values())

    def leaked_pages(self, gone):
        """Pages whose terminal event never came, and that a finished engine did not find free. Not of engines that
        are gone."""
        pages = sum(side.pages for side in self.sides.values() if side.ended_at is None and side.engine not in gone)
        return pages + sum(count for engine, count in self.finished_pages.items() if engine not in gone)


class Journals:
    """Of several replays side by side."""

    def __init__(self, paths):
        self.all = [Journal(path) for path in paths]

    def read(self):
        for journal in self.all:
            journal.read()
        return self

    def begun(self):
        """How many replays have requests."""
        return sum(1 for journal in self.all if journal.sides)

    @property
    def sides(self):
        return {(number, *key): side for number, journal in enumerate(self.all)
                for key, side in journal.sides.items()}

    def open_sides(self, moment):
        return [side for journal in self.all for side in journal.open_sides(moment)]

    def ended_requests(self):
        return sum(journal.ended_requests() for journal in self.all)

    def leaked_pages(self, gone):
        return sum(journal.leaked_pages(gone) for journal in self.all)


class Strike:
    """The times of a round, and what could not run meanwhile."""

    def __init__(self, deadline_s, bound_s):
        self.deadline_s, self.bound_s = deadline_s, bound_s
        self.struck_at = self.counted_from = self.ended_at = None
        self.interrupted_at = math.inf  # when the replay was asked to end
        self.stopped_agents = {}  # engine -> (from, until): its agent did not run
        self.stopped_engines = {}  # engine -> (from, until)
        self.gone = {}  # engine -> when its process was killed


def limit(side, strike):
    """By when the terminal event must be there."""
    deadline = side.opened_at + strike.deadline_s
    at = min(deadline, strike.interrupted_at)
    if side.opened_at < strike.ended_at:
        at = min(at, strike.ended_at)
    for stopped in (strike.stopped_agents, strike.stopped_engines):
        if side.engine in stopped and side.opened_at < stopped[side.engine][1]:
            at = max(at, stopped[side.engine][1])
    if side.opened_at < strike.ended_at:
        at = max(at, strike.counted_from)
    return at + strike.bound_s


def failing_limit(side, strike):
    """By when a fetch whose agent cannot run must be FAILING; never: no such rule holds for it."""
    if side.engine != "target" or side.engine not in strike.stopped_agents:
        return math.inf
    begin, end = strike.stopped_agents[side.engine]
    at = side.opened_at + strike.deadline_s + strike.bound_s
    return at if begin <= at < end else math.inf


def hangs(journal, strike):
    """A sentence for each request that waited too long."""
    found = []
    for side in journal.sides.values():
        if side.engine in strike.gone and (side.ended_at is None):
            continue
        late = side.ended_at is None or side.ended_at > limit(side, strike)
        silent = side.failing_at is None or side.failing_at > failing_limit(side, strike)
        if late or silent and failing_limit(side, strike) < math.inf:
            found.append(describe(side, strike, late))
    return found


def describe(side, strike, late):
    def since(moment):
        return "never" if moment is None else f"at {moment - strike.struck_at:+.2f} s"
    text = f"{side.engine} {side.request}, opened {since(side.opened_at)}, ended {since(side.ended_at)} {side.status}"
    if late:
        return f"{text}; the bound was {since(limit(side, strike))}"
    return f"{text}, was FAILING {since(side.failing_at)}; the bound was {since(failing_limit(side, strike))}"


def latencies_ms(journal, strike, until):
    """Of each request that was on its way when the fault struck: when its last terminal event came. One without
    any counts until the end of the round."""
    last = {}
    for (*request, engine, number), side in journal.sides.items():
        if engine in strike.gone or not side.open_at(strike.struck_at):
            continue
        ended_at = until if side.ended_at is None else side.ended_at
        last[*request, number] = max(last.get((*request, number), 0), ended_at)
    return sorted(round(max(0, at - strike.counted_from) * 1000, 1) for at in last.values())
