"""Checks what `kvrail trace export` wrote: python3 trace_export.py FORMAT FILE TRANSFERS. Prints what is wrong."""

import collections
import csv
import io
import json
import re
import sys

wrong = []


def require(condition, sentence):
    if not condition:
        wrong.append(sentence)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


# ---- perfetto ----

def check_threads(events):
    """Slices of one thread nest, or stand apart; each thread has a name."""
    threads = collections.defaultdict(list)
    named = {(one["pid"], one["tid"]) for one in events if one["ph"] == "M" and one["name"] == "thread_name"}
    for one in events:
        if one["ph"] == "X":
            require(one["dur"] >= 0, f"a slice of {one['dur']} us")
            threads[one["pid"], one["tid"]].append((one["ts"], -one["dur"], one["name"]))
    for thread, slices in threads.items():
        require(thread in named, f"thread {thread} has no name")
        ends = []
        for first, minus, name in sorted(slices):
            while ends and ends[-1] <= first and first - minus > ends[-1]:
                ends.pop()
            require(not ends or first - minus <= ends[-1], f"{name} at {first} leaves its parent in {thread}")
            ends.append(first - minus)
    return threads


def check_async(events):
    open_slices = {}
    count = 0
    for one in events:
        if one["ph"] not in "be":
            continue
        key = (one["pid"], one["cat"], one["id2"]["local"])
        if one["ph"] == "b":
            require(key not in open_slices, f"{key} begins twice")
            open_slices[key] = one["ts"]
            count += 1
        else:
            require(one["ts"] >= open_slices.pop(key, one["ts"] + 1), f"{key} ends before it begins, or did not begin")
    require(not open_slices, f"never ended: {sorted(open_slices)}")
    return count


def check_flows(events, threads):
    flows = collections.defaultdict(dict)
    for one in events:
        if one["ph"] in "sf":
            flows[one["id"]][one["ph"]] = one
            inside = any(first <= one["ts"] <= first - minus for first, minus, _ in threads[one["pid"], one["tid"]])
            require(inside, f"the end of flow {one['id']} lies in no slice")
    for number, ends in flows.items():
        require(sorted(ends) == ["f", "s"], f"flow {number} has {sorted(ends)}")
        require(ends["s"]["pid"] != ends["f"]["pid"], f"flow {number} stays in its process")
    return len(flows)


def check_perfetto(path, transfers):
    trace = json.loads(read(path))
    events = trace["traceEvents"]
    for one in events:
        require({"ph", "pid", "tid"} <= one.keys(), f"an event lacks a member: {one}")
        require(one["ph"] == "M" or isinstance(one["ts"], int), f"an event without a time: {one}")
    named = {one["pid"] for one in events if one["ph"] == "M" and one["name"] == "process_name"}
    require({one["pid"] for one in events} <= named, "a process has no name")
    threads = check_threads(events)
    slices = check_async(events)
    flows = check_flows(events, threads)
    whole = [one for one in events if one["ph"] == "X" and "args" in one]
    require(len({one["name"] for one in whole}) == transfers, f"{len(whole)} slices are no {transfers} transfers")
    print(f"{len(events)} events, {len(whole)} transfers, {slices} asynchronous slices, {flows} flows")


# ---- otlp ----

SPAN = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}
VALUES = {"stringValue": str, "intValue": str, "arrayValue": dict, "kvlistValue": dict}


def check_values(attributes):
    for one in attributes:
        require(one.keys() == {"key", "value"}, f"an attribute has {sorted(one)}")
        ((kind, value),) = one["value"].items()
        require(isinstance(value, VALUES.get(kind, ())), f"{one['key']} has the value {one['value']}")
        if kind == "intValue":
            require(re.fullmatch(r"-?\d+", value), f"{one['key']} is {value}")
        if kind == "kvlistValue":
            check_values(value["values"])
        if kind == "arrayValue":
            for element in value["values"]:
                check_values([{"key": one["key"], "value": element}])


def check_span(span):
    require(span.keys() <= SPAN, f"a span has {sorted(span.keys() - SPAN)}")
    require(re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16), f"traceId {span['traceId']}")
    require(re.fullmatch("[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16), f"spanId {span['spanId']}")
    require(span["kind"] in (1, 2, 3), f"kind {span['kind']}")
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        require(isinstance(span[key], str) and span[key].isdigit(), f"{key} is {span[key]!r}")
    require(int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]), "a span ends before it starts")
    require(span.get("status", {}).get("code", 0) in (0, 1, 2), f"status {span.get('status')}")
    check_values(span["attributes"])


def check_otlp(path, transfers):
    spans = []
    for line in read(path).rstrip("\n").split("\n"):
        data = json.loads(line)
        require(data.keys() == {"resourceSpans"}, f"a line has {sorted(data)}")
        for resource in data["resourceSpans"]:
            require(resource.keys() == {"resource", "scopeSpans"}, f"a resource has {sorted(resource)}")
            check_values(resource["resource"]["attributes"])
            for scope in resource["scopeSpans"]:
                require(scope.keys() == {"scope", "spans"}, f"a scope has {sorted(scope)}")
                spans += scope["spans"]
    for span in spans:
        check_span(span)
    ids = {(span["traceId"], span["spanId"]): span for span in spans}
    require(len(ids) == len(spans), "a span's id is there twice")
    for span in spans:
        if "parentSpanId" in span:
            parent = ids.get((span["traceId"], span["parentSpanId"]))
            require(parent, f"the parent of {span['name']} is not there")
            if parent and span["name"] == "transfer":
                require(parent["name"] == "request", f"a transfer's parent is {parent['name']}")
    names = collections.Counter(span["name"] for span in spans)
    require(names["transfer"] == transfers, f"{names['transfer']} transfers, not {transfers}")
    print(f"{len(spans)} spans: {dict(names)}")


# ---- csv, summary ----

def check_csv(path, transfers):
    text = read(path)
    require(text.endswith("\r\n"), "the last line has no CRLF")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    require(len(rows) == transfers, f"{len(rows)} rows, not {transfers}")
    for row in rows:
        require(None not in row and None not in row.values(), f"a row has another number of fields: {row}")
    print(json.dumps(rows[0]))


def check_summary(path, transfers):
    summary = json.loads(read(path))
    require(summary["transfers"] == transfers == sum(summary["outcomes"].values()), f"{summary['transfers']} transfers")
    require(sum(summary["reasons"].values()) <= transfers, "more reasons than transfers")
    for name, one in summary["time_ms"].items():
        figures = [one[key] for key in ("p50", "p90", "p95", "p99", "max")]
        require(figures == sorted(figures), f"the percentiles of {name} fall: {figures}")
    for agent in summary["agents"]:
        require(sum(rail["bytes"] for rail in agent["rails"]) <= 2 * summary["bytes"], f"{agent['name']}: rails")
    print(json.dumps(summary))


{"perfetto": check_perfetto, "otlp": check_otlp, "csv": check_csv, "summary": check_summary}[sys.argv[1]](
    sys.argv[2], int(sys.argv[3]))
for sentence in wrong[:20]:
    print(sentence, file=sys.stderr)
sys.exit(1 if wrong else 0)
