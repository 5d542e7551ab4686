"""What every fault has.

A fault strikes, is seen to take effect, and is healed. `seconds` is how long it lasts. Times to terminal
events count from the strike. They count from the heal where a process that must answer does not run, and where
all rails still carry bytes, only slowly: such a transfer is not stuck.
"""


class Unavailable(Exception):
    """This host cannot make the fault, found when it was tried."""

    def __init__(self, fault, reason):
        super().__init__(str(reason))
        self.fault = fault


class Fault:
    name = ""
    seconds = 7.0
    deadline_s = 60  # of the round's requests; short where a process is away for longer than that
    touches = frozenset()  # two faults of one round touch nothing in common
    alone = False
    needs_cables = False  # else the agents may also share a host, and copy by provider local
    replays = 1
    counts_from_heal = False
    stops_agents = ()  # the engines whose agents do not run meanwhile
    stops_engines = ()
    kills_engines = ()
    ends_replay = False

    def __init__(self, rng):
        self.rng = rng

    @classmethod
    def missing(cls):
        """Why this host cannot make it; None: it can."""
        return None

    def prepare(self, world):
        """Before any program starts."""

    def strike(self, world, replay):
        raise NotImplementedError

    def took_effect(self, world):
        """Asked until it is true, while the fault lasts and once after that."""
        raise NotImplementedError

    def heal(self, world):
        """Undoes the strike. Programs that it ended run again afterwards."""

    def clean(self, world):
        """After the round's programs have ended."""
