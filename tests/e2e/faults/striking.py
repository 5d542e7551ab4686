"""Faults that strike together, and their heals."""
import time

from fault import Unavailable


def attempt(fault, action, *arguments):
    try:
        action(*arguments)
    except OSError as reason:
        raise Unavailable(fault, reason) from reason


def strike_and_heal(faults, world, replay, strike):
    """Names of those that were seen to take effect. What was struck is healed, too, where the next fault could not
    be made."""
    strike.struck_at = time.monotonic()
    struck = []
    try:
        for fault in faults:
            fault.struck_at, fault.effective = time.monotonic(), False
            for engine in fault.kills_engines:
                strike.gone[engine] = fault.struck_at
            attempt(fault, fault.strike, world, replay)
            struck.append(fault)
        await_heals(struck, world, strike)
    except Unavailable:
        for fault in struck:
            heal(fault, world, strike)
        raise
    finally:
        strike.ended_at = time.monotonic()
    heals = [fault.healed_at for fault in faults if fault.counts_from_heal]
    strike.counted_from = max(heals, default=strike.struck_at)
    return [fault.name for fault in faults if fault.effective]


def await_heals(faults, world, strike):
    left = list(faults)
    while left:
        for fault in list(left):
            fault.effective = fault.effective or fault.took_effect(world)
            if time.monotonic() >= fault.struck_at + fault.seconds:
                left.remove(fault)
                heal(fault, world, strike)
        time.sleep(0.05)


def heal(fault, world, strike):
    fault.heal(world)
    fault.effective = fault.effective or fault.took_effect(world)
    fault.healed_at = time.monotonic()
    for engine in fault.stops_agents:
        strike.stopped_agents[engine] = fault.struck_at, fault.healed_at
    for engine in fault.stops_engines:
        strike.stopped_engines[engine] = fault.struck_at, fault.healed_at
