"""Which faults strike in which round. Rounds 1 to N of a seed are the beginning of rounds 1 to N + 1."""
import random

EVERY_FIFTH = 5


SOON_S = 4.0


def contradict(fault, other):
    """A replay that ends waits 10 s for its last events, so that nothing may hold these back for long."""
    return fault.ends_replay and other.seconds > SOON_S or bool(fault.touches & other.touches)


def fits(fault, chosen, together):
    if fault.alone or any(other.alone for other in chosen):
        return not chosen and not (fault.alone and together > 1)
    return not any(contradict(fault, other) or contradict(other, fault) for other in chosen)


def rounds(faults, seed, count):
    """A list of faults for each round. All are dealt before any comes again."""
    rng = random.Random(f"faults {seed}")
    deck, dealt = [], []
    for number in range(1, count + 1):
        together = rng.choice((2, 3)) if number % EVERY_FIFTH == 0 else 1
        chosen = []
        while len(chosen) < together:
            at = next((at for at, fault in enumerate(deck) if fits(fault, chosen, together)), None)
            if at is None:
                fresh = list(faults)
                rng.shuffle(fresh)
                deck += fresh
                if not any(fits(fault, chosen, together) for fault in fresh):
                    break
                continue
            chosen.append(deck.pop(at))
        dealt.append(chosen)
    return dealt


def round_rng(seed, which):
    """What varies within a round."""
    return random.Random(f"round {seed} {which}")
