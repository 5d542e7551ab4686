"""Rounds of faults against real processes: see tests/e2e/faults.sh."""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import network_faults  # noqa: E402
import order  # noqa: E402
import process_faults  # noqa: E402
import resource_faults  # noqa: E402
import sums  # noqa: E402
from hosts import Network  # noqa: E402
from programs import make_certificates  # noqa: E402
from round import Round, keep_logs  # noqa: E402

FAULTS = (*network_faults.FAULTS, *process_faults.FAULTS, *resource_faults.FAULTS)
CAMPAIGN_ROUNDS, CI_ROUNDS = 200, 10
MAY_BE_MISSING = ()  # in a campaign
SKIPPED = 77


def parse(arguments):
    parser = argparse.ArgumentParser(prog="faults.sh", description="Strikes real agents, engines and cables, and looks "
                                     "for wrong bytes, hangs and leaked pages.")
    parser.add_argument("--rounds", type=int, help=f"how many ({CI_ROUNDS}; with --campaign {CAMPAIGN_ROUNDS})")
    parser.add_argument("--seed", type=int, default=1, help="orders the faults (1)")
    parser.add_argument("--json", metavar="FILE", help="write the sum there, and a line for each round to FILE.rounds")
    parser.add_argument("--campaign", action="store_true", help="many rounds, and all faults must be there; so does "
                        "KVRAIL_CAMPAIGN=1")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="K",
                        help="begin with round K, and add to what FILE.rounds has")
    parser.add_argument("--round", type=int, metavar="K", help="round K of the seed alone")
    parser.add_argument("--faults", metavar="NAME+NAME,NAME", help="these rounds instead of the seed's")
    parser.add_argument("--provider", choices=("tcp", "tcp+local"), help="of rounds without a fault of cables (a third "
                        "of these: tcp+local, both agents on one host)")
    parser.add_argument("--keep", action="store_true", help="keep the logs of good rounds, too")
    parser.add_argument("--list", action="store_true", help="print the faults, and which this host cannot make")
    options = parser.parse_args(arguments)
    options.campaign = options.campaign or bool(os.environ.get("KVRAIL_CAMPAIGN"))
    options.rounds = options.rounds or (CAMPAIGN_ROUNDS if options.campaign else CI_ROUNDS)
    options.bin_dir = os.environ["KVRAIL_BIN_DIR"]
    return options


def by_name(name, parser_error):
    for fault in FAULTS:
        if fault.name == name:
            return fault
    return parser_error(f"there is no fault '{name}'")


def planned(options, available):
    """[(number, faults)]"""
    if options.faults:
        named = [[by_name(name, sys.exit) for name in together.split("+")] for together in options.faults.split(",")]
        return list(enumerate(named, 1))
    last = options.round or options.rounds
    rounds = list(enumerate(order.rounds(available, options.seed, last), 1))
    return rounds[options.round - 1:] if options.round else rounds[options.first - 1:]


def missing_faults():
    """Those that this host cannot make, each with its reason."""
    found = {}
    for fault in FAULTS:
        reason = fault.missing()
        if reason:
            found[fault.name] = reason
    return found


def show(result, last):
    values = result["latencies_ms"]
    p99 = "none in flight" if not values else f"{len(values)} in flight, p99 {sums.percentile_99(values):.0f} ms"
    cannot = [f"this host cannot make {name}: {reason}" for name, reason in result["unavailable"].items()]
    verdict = "; ".join(result["problems"] + cannot) or "good"
    unseen = [name for name in result["faults"] if name not in result["injected"]]
    effect = f" (no effect seen of {', '.join(unseen)})" if unseen else ""
    print(f"round {result['round']}/{last} {result['provider']} {'+'.join(result['faults'])}{effect}: "
          f"{result['requests']} requests, {p99}, {result['seconds']} s: {verdict}", flush=True)


def repeat_command(options, result):
    if options.faults:
        return f"sh tests/e2e/faults.sh --seed {options.seed} --faults {'+'.join(result['faults'])}"
    return f"sh tests/e2e/faults.sh --seed {options.seed} --round {result['round']}"


def play_rounds(options, work, lines, available, kept):
    """kept: gets the folders with logs that stay."""
    results = []
    tls = os.path.join(work, "tls")
    make_certificates(options, tls)
    rounds = planned(options, available)
    for number, faults in rounds:
        folder = os.path.join(work, f"round-{number}")
        rng = order.round_rng(options.seed, "+".join(fault.name for fault in faults) if options.faults else number)
        result = Round(options, tls, folder, faults, rng, number).run()
        results.append(result)
        show(result, rounds[-1][0])
        if lines:
            print(json.dumps(result), file=lines, flush=True)
        if result["problems"] or options.keep:
            keep_logs(folder)
            kept.append(folder)
            print(f"  its logs: {folder}\n  again: {repeat_command(options, result)}", flush=True)
        else:
            shutil.rmtree(folder)
    return results


def end(number, frame):
    raise KeyboardInterrupt


def main(arguments):
    options = parse(arguments)
    try:
        Network().close()
    except OSError as reason:
        print(f"this host has no cables for faults: {reason}", file=sys.stderr)
        return SKIPPED
    missing = missing_faults()
    if options.list:
        for fault in FAULTS:
            print(fault.name, f"(not here: {missing[fault.name]})" if fault.name in missing else "")
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    work = tempfile.mkdtemp(prefix="kvrail-faults.")
    results, kept, lines, interrupted = [], [], None, False
    if options.json:
        lines = open(f"{options.json}.rounds", "a" if options.first > 1 else "w", encoding="utf-8")
    try:
        results = play_rounds(options, work, lines, [fault for fault in FAULTS if fault.name not in missing],
                              kept)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted", file=sys.stderr)
    for folder in os.listdir(work):
        if folder == "tls" or interrupted and os.path.join(work, folder) not in kept:
            shutil.rmtree(os.path.join(work, folder), ignore_errors=True)
    if not os.listdir(work):
        os.rmdir(work)
    if options.json:
        lines.close()
        results = sums.read_rounds(f"{options.json}.rounds")
    total = sums.add_up(results, missing)
    text = json.dumps(total, indent=2)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            print(text, file=file)
    else:
        print(text)
    if options.campaign and set(total["unavailable"]) - set(MAY_BE_MISSING):
        print(f"a campaign needs {', '.join(sorted(set(total['unavailable']) - set(MAY_BE_MISSING)))}")
        return 1
    return 130 if interrupted else 0 if sums.good(total) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
