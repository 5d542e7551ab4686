"""From rounds to the sum that --json has. Each round is a line of FILE.rounds, so that several runs add up."""
import json
import math

from programs import BOUND_S


def percentile_99(values):
    values = sorted(values)
    return values[max(0, math.ceil(0.99 * len(values)) - 1)] if values else None


def fault_key(result):
    faults = result["faults"]
    return faults[0] if len(faults) == 1 else {2: "two_at_once", 3: "three_at_once"}[len(faults)]


def read_rounds(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def add_up(results, missing, bound_ms=round(BOUND_S * 1000)):
    """missing: faults that this host cannot make, each with its reason."""
    times, counted_from, injected, seen = {}, {}, {}, {}
    unavailable = dict(missing)
    for result in results:
        times.setdefault(fault_key(result), []).extend(result["latencies_ms"])
        counted_from.setdefault(fault_key(result), set()).add(result.get("counted_from", "strike"))
        for name in result["faults"]:
            seen[name] = seen.get(name, 0) + 1
        for name in result["injected"]:
            injected[name] = injected.get(name, 0) + 1
        unavailable.update(result["unavailable"])
    return {
        "rounds": len(results),
        "wrong_bytes": sum(result["wrong_bytes"] for result in results),
        "hangs": sum(result["hangs"] for result in results),
        "leaked_pages": sum(result["leaked_pages"] for result in results),
        "unclean": sum(result["unclean"] for result in results),
        "providers": {name: sum(result["provider"] == name for result in results)
                      for name in sorted({result["provider"] for result in results})},
        "requests": sum(result["requests"] for result in results),
        "bound_ms": bound_ms,
        "p99_terminal_ms": {name: {"p99": percentile_99(values), "in_flight": len(values),
                                   "counted_from": " or ".join(sorted(counted_from[name])),
                                   "within_bound": percentile_99(values) <= bound_ms if values else None}
                            for name, values in sorted(times.items())},
        "dealt": dict(sorted(seen.items())),
        "injected": dict(sorted(injected.items())),
        "unavailable": dict(sorted(unavailable.items())),
        "seconds_max": max((result["seconds"] for result in results), default=0),
        "failed_rounds": [{"seed": result["seed"], "round": result["round"], "faults": result["faults"],
                           "problems": result["problems"]} for result in results if result["problems"]],
    }


def good(total):
    return not (total["wrong_bytes"] or total["hangs"] or total["leaked_pages"] or total["unclean"])
