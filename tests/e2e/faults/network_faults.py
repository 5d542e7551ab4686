"""Faults of cables, addresses and packets."""
from fault import Fault
from hosts import CONTROL_CABLE, RAIL_RATE, RAILS, address


class CableFault(Fault):
    needs_cables = True


class FilterFault(CableFault):
    """Packets that arrive over some cables at one end or both meet a rule."""
    touches = frozenset(["rails"])
    table = "fault"
    cables = RAILS
    rule = "counter drop"

    def ends(self, world):
        return world.network.hosts

    def rules(self, host):
        return [f"{from_cables(self.cables, host)} {self.rule}"]

    def strike(self, world, replay):
        self.struck = []
        self.met = 0
        for host in self.ends(world):
            world.network.add_filter(host, self.table, self.rules(host))
            self.struck.append(host)

    def took_effect(self, world):
        return self.met > 0 or any(world.network.filtered(host, self.table) > 0 for host in self.struck)

    def heal(self, world):
        for host in self.struck:
            self.met += world.network.filtered(host, self.table)
            world.network.remove_filter(host, self.table)
        self.struck = []


def from_cables(cables, host):
    return "ip saddr { " + ", ".join(address(cable, 3 - host.end) for cable in cables) + " }"


class DropRail(FilterFault):
    """One rail of two is silent."""
    name = "drop_rail"

    def __init__(self, rng):
        super().__init__(rng)
        self.cables = [rng.choice(RAILS)]


class BlackHole(FilterFault):
    """All rails are silent, and the control channel lives."""
    name = "black_holed_rails"


class OneWayLoss(FilterFault):
    """All rails are silent in one way."""
    name = "one_way_loss"

    def __init__(self, rng):
        super().__init__(rng)
        self.end = rng.randrange(2)

    def ends(self, world):
        return [world.network.hosts[self.end]]


class Loss(FilterFault):
    """Some packets are lost on all rails, in both ways. Bytes still come through."""
    name = "loss"
    counts_from_heal = True

    def __init__(self, rng):
        super().__init__(rng)
        self.rule = f"numgen random mod 100 < {rng.choice((2, 5, 15))} counter drop"


class MtuBlackHole(FilterFault):
    """Long packets are lost on all rails."""
    name = "mtu_black_hole"
    rule = "meta length > 600 counter drop"


class ResetRails(FilterFault):
    """Each packet of a rail is answered with a TCP reset, for a moment."""
    name = "reset_rails"
    seconds = 0.5
    rule = "meta l4proto tcp counter reject with tcp reset"


class ResetControl(ResetRails):
    name = "reset_control"
    touches = frozenset(["control"])
    table = "control_fault"
    cables = [CONTROL_CABLE]


class ControlPartition(FilterFault):
    """The control channel is silent, and the rails live."""
    name = "control_partition"
    touches = frozenset(["control"])
    table = "control_fault"
    cables = [CONTROL_CABLE]


class SlowRail(CableFault):
    """One rail of two is suddenly 50 or 100 times slower."""
    name = "slow_rail"
    seconds = 9.0
    touches = frozenset(["rails"])

    def __init__(self, rng):
        super().__init__(rng)
        self.rails = [rng.choice(RAILS)]
        self.rate = rng.choice(("1mbit", "2mbit"))
        self.met = False

    def strike(self, world, replay):
        self.set_rates(world, self.rate)

    def set_rates(self, world, rate):
        for host in world.network.hosts:
            for rail in self.rails:
                world.network.set_rate(host, rail, rate)

    def took_effect(self, world):
        self.met = self.met or any(world.network.held_back(host, rail) > 0 for host in world.network.hosts
                                   for rail in self.rails)
        return self.met

    def heal(self, world):
        self.took_effect(world)
        self.set_rates(world, RAIL_RATE)


class SlowRails(SlowRail):
    """All rails are suddenly slow. Bytes still come through."""
    name = "slow_rails"
    counts_from_heal = True

    def __init__(self, rng):
        super().__init__(rng)
        self.rails = RAILS
        self.rate = "1mbit"


class LinkDown(CableFault):
    """A rail's interface is down at one end."""
    name = "link_down"
    touches = frozenset(["rails"])

    def __init__(self, rng):
        super().__init__(rng)
        self.rail, self.end = rng.choice(RAILS), rng.randrange(2)
        self.met = False

    def strike(self, world, replay):
        world.network.hosts[self.end].run("ip", "link", "set", f"rail{self.rail}", "down")

    def took_effect(self, world):
        self.met = self.met or not world.network.is_up(world.network.hosts[self.end], self.rail)
        return self.met

    def heal(self, world):
        world.network.hosts[self.end].run("ip", "link", "set", f"rail{self.rail}", "up")


class AddressRemoved(LinkDown):
    """A rail's address is taken away at one end."""
    name = "address_removed"

    def change(self, world, what):
        host = world.network.hosts[self.end]
        host.run("ip", "addr", what, f"{address(self.rail, host.end)}/24", "dev", f"rail{self.rail}")

    def strike(self, world, replay):
        self.change(world, "del")

    def took_effect(self, world):
        self.met = self.met or not world.network.has_address(world.network.hosts[self.end], self.rail)
        return self.met

    def heal(self, world):
        self.change(world, "add")


FAULTS = (DropRail, BlackHole, OneWayLoss, Loss, MtuBlackHole, ResetRails, ResetControl, ControlPartition, SlowRail,
          SlowRails, LinkDown, AddressRemoved)
