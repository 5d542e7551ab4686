"""Two hosts in network namespaces, joined by cables, and what is done to the cables.

Cable N joins 10.78.N.1 at the source's host with 10.78.N.2 at the target's: 1 and 2 are rails, 8 leads to
the scheduler, 9 is the control channel. A namespace lives as long as the process that holds it, so that
nothing is left behind, whatever ends this program.
"""
import json
import os
import subprocess
import time

SOURCE, TARGET = 1, 2  # ends of a cable
RAILS = (1, 2)
SCHEDULER_CABLE, CONTROL_CABLE = 8, 9
RAIL_RATE = "100mbit"


def address(cable, end):
    return f"10.78.{cable}.{end}"


def run(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=20)
    if check and done.returncode != 0:
        raise OSError(f"{' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


class Host:
    def __init__(self, end):
        self.end = end
        ours = os.readlink("/proc/self/ns/net")
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == ours:
            if self.holder.poll() is not None or time.monotonic() > until:
                raise OSError("no network namespace can be made")
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    def inside(self, *command):
        """The command that runs another one here, and becomes it. /sys shows this host's cards."""
        mount = 'mount -t sysfs sysfs /sys && exec "$@"'
        return ["nsenter", f"--target={self.holder.pid}", "--net", "unshare", "--mount", "sh", "-c", mount, "sh",
                *command]

    def run(self, *command, check=True):
        return run("nsenter", f"--target={self.holder.pid}", "--net", *command, check=check)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Network:
    def __init__(self):
        self.source, self.target = Host(SOURCE), Host(TARGET)
        self.hosts = (self.source, self.target)
        for cable in (*RAILS, SCHEDULER_CABLE, CONTROL_CABLE):
            self.source.run("ip", "link", "add", f"rail{cable}", "type", "veth", "peer", "name", f"rail{cable}",
                            "netns", self.target.holder.pid)
            for host in self.hosts:
                host.run("ip", "addr", "add", f"{address(cable, host.end)}/24", "dev", f"rail{cable}")
                host.run("ip", "link", "set", f"rail{cable}", "up")
        for host in self.hosts:
            for rail in RAILS:
                self.set_rate(host, rail, RAIL_RATE)

    def close(self):
        for host in self.hosts:
            host.close()

    # ---- rates -------------------------------------------------------------------------------

    def set_rate(self, host, rail, rate):
        host.run("tc", "qdisc", "replace", "dev", f"rail{rail}", "root", "tbf", "rate", rate, "burst", "64kb",
                 "latency", "20ms")

    def held_back(self, host, rail):
        """Packets that its rate has held back or dropped since the rate was set."""
        shown = json.loads(host.run("tc", "-s", "-j", "qdisc", "show", "dev", f"rail{rail}"))
        return sum(item.get("overlimits", 0) + item.get("drops", 0) for item in shown)

    # ---- filters -----------------------------------------------------------------------------

    def add_filter(self, host, name, rules):
        """Rules for what arrives at the host, in a table of that name. Each has a counter."""
        text = f"table ip {name} {{\nchain arrivals {{\ntype filter hook input priority 0;\n"
        text += "\n".join(rules) + "\n}\n}\n"
        done = subprocess.run(["nsenter", f"--target={host.holder.pid}", "--net", "nft", "-f", "-"], input=text,
                              capture_output=True, text=True, timeout=20)
        if done.returncode != 0:
            raise OSError(f"nft: {done.stderr.strip()}")

    def remove_filter(self, host, name):
        host.run("nft", "delete", "table", "ip", name)

    def filtered(self, host, name):
        """Packets that the rules of that table have met."""
        shown = json.loads(host.run("nft", "-j", "list", "table", "ip", name))
        return sum(part["counter"]["packets"] for item in shown["nftables"] for part in
                   item.get("rule", {}).get("expr", ()) if "counter" in part)

    # ---- addresses and links -----------------------------------------------------------------

    def has_address(self, host, rail):
        shown = json.loads(host.run("ip", "-j", "addr", "show", "dev", f"rail{rail}"))
        return any(found.get("local") == address(rail, host.end) for item in shown
                   for found in item.get("addr_info", ()))

    def is_up(self, host, rail):
        shown = json.loads(host.run("ip", "-j", "link", "show", "dev", f"rail{rail}"))
        return "UP" in shown[0]["flags"]
