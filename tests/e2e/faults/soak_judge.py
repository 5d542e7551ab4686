"""What is judged of a soak: whether an agent stays as it was, and whether each request ended in time.

Memory is an agent's anonymous memory: its heap, stacks and tables. The pools of engines that it maps come and go
with these engines, and are not its own.
"""
import re
import statistics

# Of memory at the end, over that of the second quarter, in KiB. Measured without any leak, medians of a quarter vary
# by 100 to 400 KiB with what is on its way. A leak of 32 bytes a request is 1.2 MiB after 40,000 requests.
GROWTH_KIB = 1024
# In a short run the tables of the agents are still being touched for the first time. It finds a leak of some KiB
# for each request or engine.
SHORT_GROWTH_KIB, SHORT_MINUTES = 4096, 30


# libfabric 1.17.0 loses a copy of a fi_info with each endpoint and each connection; 1.17.1 does not. Measured: 17 KiB
# for each fault in the malloc arena of an agent's rail thread.
LEAKY_LIBFABRIC, LEAK_KIB_A_FAULT = "1.17.0", 18


def allowed_kib(minutes, faults, libfabric):
    """faults: of the whole run. Half of them strike between the middles of the second and the last quarter."""
    if minutes < SHORT_MINUTES:
        return SHORT_GROWTH_KIB
    return GROWTH_KIB + (faults // 2 * LEAK_KIB_A_FAULT if libfabric == LEAKY_LIBFABRIC else 0)


def libfabric_of(log):
    """The version that an agent has loaded; None: the log does not say."""
    found = re.search(r"libfabric (\d+\.\d+\.\d+) of ", log)
    return found.group(1) if found else None


def known(values):
    return [value for value in values if value is not None]


def quarter(times, values, number, end):
    """The values that were sampled in that quarter, the first is 1, of a run that ends at `end`."""
    return [value for at, value in zip(times, values)
            if value is not None and (number - 1) / 4 <= at / end < number / 4 + (number == 4)]


def growth_kib(times, values, end):
    """The median of the last quarter over that of the second; None: too few samples."""
    second, last = quarter(times, values, 2, end), quarter(times, values, 4, end)
    return statistics.median(last) - statistics.median(second) if second and last else None


def slope_per_hour(times, values, end):
    """Of the straight line through all values after the first quarter; None: too few samples."""
    points = [(at, value) for at, value in zip(times, values) if value is not None and at >= end / 4]
    if len({at for at, _ in points}) < 2:
        return None
    return statistics.linear_regression(*zip(*points)).slope * 3600


def limit(side, deadline_s, bound_s, strikes):
    """By when a request must have its terminal event. strikes: (from, until), in order. After each that struck before
    then the request has its bound again."""
    at = side.opened_at + deadline_s + bound_s
    for begin, end in strikes:
        if begin <= at and end > side.opened_at:
            at = max(at, end + bound_s)
    return at


def hangs(journal, deadline_s, bound_s, strikes, gone):
    """A sentence for each request that ended too late, or never. gone: engines that were killed."""
    found = []
    for side in journal.sides.values():
        if side.engine in gone and side.ended_at is None:
            continue
        by = limit(side, deadline_s, bound_s, strikes)
        if side.ended_at is None or side.ended_at > by:
            ended = "never ended" if side.ended_at is None else f"ended {side.ended_at - by:.2f} s too late"
            found.append(f"{side.engine} {side.request} of {journal.path} {ended}")
    return found
