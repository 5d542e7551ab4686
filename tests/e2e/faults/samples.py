"""What long-lived programs have, sampled: memory, descriptors and threads from /proc, the rest as the scheduler
knows it."""
import json
import os
import time

FROM_PROC = ("rss_kib", "pss_kib", "anon_kib", "fds", "threads")
# slots: requests that are not over, each with its slots. publishes: what engines have open, fetches of a target's.
FROM_SCHEDULER = ("slots", "publishes", "regions", "region_bytes", "peers")
HELD = ("slots", "publishes", "regions", "region_bytes")


def of_process(pid):
    rollup = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        for line in list(file)[1:]:
            name, value = line.split(":")
            rollup[name] = int(value.split()[0])
    return {"rss_kib": rollup["Rss"], "pss_kib": rollup["Pss"], "anon_kib": rollup["Anonymous"],
            "fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task"))}


def mappings(pid, most=8):
    """Where the anonymous memory lies: {"size KiB path at its address": KiB}, the largest shares."""
    found = {}
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                begin, end = (int(address, 16) for address in words[0].split("-"))
                name = f"{(end - begin) >> 10} KiB {words[5] if len(words) > 5 else 'unnamed'} at {begin:x}"
            elif words[0] == "Anonymous:":
                found[name] = int(words[1])
    return dict(sorted(found.items(), key=lambda item: -item[1])[:most])


def of_agents(world):
    """{name: values}; {}: the scheduler does not answer."""
    try:
        agents = json.loads(world.ask_scheduler("/api/v1/agents"))["agents"]
    except (ValueError, KeyError, OSError):
        return {}
    return {agent["name"]: {"slots": agent["transfers_live"], "peers": agent["peers_up"],
                            "publishes": sum(tenant["requests"] for tenant in agent["tenants"]),
                            "regions": sum(engine["regions"] for engine in agent["engines"]),
                            "region_bytes": sum(engine["region_bytes"] for engine in agent["engines"])}
            for agent in agents}


class Samples:
    """Series of one length for each program; None: not known at that time."""

    def __init__(self, world):
        self.world = world
        self.began = time.monotonic()
        self.times = []
        self.of = {agent.name: {key: [] for key in FROM_PROC + FROM_SCHEDULER} for agent in world.agents}
        self.of[world.scheduler.name] = {key: [] for key in FROM_PROC}

    def look(self):
        """{name: values} of now."""
        reported = of_agents(self.world)
        return {program.name: {**of_process(program.pid), **reported.get(program.name, {})}
                for program in self.world.programs}

    def take(self):
        now = self.look()
        self.times.append(round(time.monotonic() - self.began, 1))
        for name, series in self.of.items():
            for key, values in series.items():
                values.append(now[name].get(key))
