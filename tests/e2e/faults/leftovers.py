"""What programs must not leave behind: wrong bytes, something that they hold, alarms."""
import time

HELD_METRICS = tuple(f"kvrail_{name}{{" for name in ("tenant_requests", "tenant_bytes", "registered_bytes",
                                                    "rail_in_flight_writes"))
# Writes and reports that no honest program makes.
ALARM_METRICS = tuple(f"kvrail_{name}_total" for name in (
    "stale_writes", "rail_idle_slot_writes", "rail_wrong_tag_writes", "rail_wrong_chunk_writes", "digest_mismatches",
    "ingest_reports_refused", "ingest_reports_contradicted", "scheduler_answers_refused", "memory_faults"))


def nothing_held(world, held):
    """What the agents have of engines, publishes, fetches and writes, as the scheduler knows it."""
    lines = [line for line in world.ask_scheduler("/metrics").splitlines() if line.startswith(HELD_METRICS)]
    held[:] = [line for line in lines if float(line.split()[-1]) > 0]
    agents = {line.split('agent="')[1].split('"')[0] for line in lines}
    time.sleep(0.2)
    return not held and agents == {agent.name for agent in world.agents}


def alarms(world):
    return [line for line in world.ask_scheduler("/metrics").splitlines()
            if line.startswith(ALARM_METRICS) and float(line.split()[-1]) > 0]


def wrong_bytes(figures, whose):
    """How many a replay found, and a sentence if there is something to say."""
    if not figures:
        return 0, f"{whose} wrote no figures"
    page = sum(group["page_bytes"] for group in figures["setup"]["groups"])
    wrong = figures["bytes_wrong"] + figures["pages_written_late"] * page
    return wrong, (f"{whose} found {figures['bytes_wrong']} wrong bytes and {figures['pages_written_late']} "
                   "pages that were written late") if wrong else None
