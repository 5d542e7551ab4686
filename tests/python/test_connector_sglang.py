"""Goal: SGLang's sender and receiver need nothing that the machines do not have.

Method: a sender and a receiver of a few lines stand here as an adapter for SGLang would: its calls
become events, actions become calls of kvrail, and `poll` maps the state. Each script is a table:
the call or the event, the calls of kvrail that follow, and what `poll` answers then. The machines
are those that vLLM's adapter uses.
"""

from __future__ import annotations

import enum
import unittest

import support
from kvrail.connector import source, target
from kvrail.connector.blocks import Group
from kvrail.connector.book import Book
from kvrail.connector.machine import Limits

KVPoll = enum.IntEnum(
    "KVPoll", "Failed Bootstrapping WaitingForInput Transferring Success", start=0
)
PAGE = 16
ROW = b"the metadata row"


class Manager:
    """As a KVManager: one connection with both books, and the calls that it makes."""

    def __init__(self) -> None:
        self.sources = Book(
            source.step, source.Event(source.On.AGENT_UP), source.Event(source.On.TIMER)
        )
        self.targets = Book(
            target.step, target.Event(target.On.AGENT_UP), target.Event(target.On.TIMER)
        )
        self.calls: list[str] = []
        self.ends: dict[str, object] = {}
        self.rows: dict[str, bytes] = {}
        self.limits = Limits(hold=300, park=5)
        self.agent(True)

    def agent(self, is_up: bool) -> None:
        self.sources.agent(is_up, 0.0)
        self.targets.agent(is_up, 0.0)
        self.act()

    def act(self) -> None:
        for book in (self.sources, self.targets):
            for key, action in book.take():
                self.carry_out(key, action)

    def carry_out(self, key: str, action) -> None:
        match action:
            case source.OpenSource():
                self.calls.append(f"source_open {action.request}/{action.attempt}")
            case source.GivePages():
                pages = "+".join(str(len(group)) for group in action.chunk.pages)
                self.calls += [
                    f"source_pages {pages}",
                    f"source_watch [{action.token_first}, {action.chunk.token_end})",
                ]
            case source.EndSource():
                self.calls += ["source_tail"] * bool(action.tail) + ["source_end"]
            case target.OpenTarget():
                self.calls.append(
                    f"target_open {action.request}/{action.offer.attempt} skip {action.skip}"
                )
            case source.Cancel():
                self.calls.append("cancel")
            case source.Renew():
                self.calls.append("renew")
            case target.Tail():
                self.rows[key] = action.bytes
            case _:
                self.ends[key] = action


class Sender:
    def __init__(self, manager: Manager, room: int) -> None:
        self.manager, self.key = manager, f"sgl-{room}"
        self.aborted = False

    def feed(self, on: source.On, **fields) -> None:
        self.manager.sources.feed(self.key, source.Event(on, **fields), 0.0)
        self.manager.act()

    def init(self, num_kv_indices: int) -> None:
        book = self.manager.sources
        book.add(
            self.key,
            source.source(
                self.key, 0, num_kv_indices * PAGE, book.next_serial(), self.manager.limits
            ),
            0.0,
        )
        self.manager.act()

    def send(self, pages: list[int], token_end: int, state_pages: list[int] | None = None) -> None:
        last = state_pages is not None
        self.feed(
            source.On.CHUNK, chunk=source.Chunk((tuple(pages), tuple(state_pages or ())), token_end)
        )
        if last:
            self.feed(source.On.SEAL, tail=ROW)

    def abort(self) -> None:
        self.feed(source.On.ABORT)

    def event(self, name: str, **fields) -> None:
        self.feed(source.On[name], ticket=self.manager.sources.get(self.key).ticket, **fields)

    def poll(self) -> KVPoll:
        if (end := self.manager.ends.get(self.key)) is not None:
            return KVPoll.Success if end.status == "ok" else KVPoll.Failed
        record = self.manager.sources.get(self.key)
        if record is None:
            return KVPoll.Bootstrapping
        return KVPoll.Transferring if record.chunks else KVPoll.WaitingForInput


class Receiver:
    def __init__(self, manager: Manager, room: int) -> None:
        self.manager, self.key = manager, f"sgl-{room}"

    def feed(self, on: target.On, **fields) -> None:
        self.manager.targets.feed(self.key, target.Event(on, **fields), 0.0)
        self.manager.act()

    def init(self) -> None:
        book = self.manager.targets
        book.add(
            self.key,
            target.target(
                self.key,
                target.Offer(0, ("prefill:9480",)),
                book.next_serial(),
                self.manager.limits,
            ),
            0.0,
        )
        self.manager.act()

    def send_metadata(
        self, pages: list[int], state_pages: list[int], tokens: int, prefix: int
    ) -> None:
        groups = (Group(tuple(pages), PAGE), Group(tuple(state_pages), 0))
        if prefix >= tokens:
            self.feed(target.On.COVERED, tokens=tokens)
        else:
            self.feed(target.On.BLOCKS, tokens=tokens, skip=prefix, groups=groups)

    def abort(self) -> None:
        self.feed(target.On.ABORT)

    def event(self, name: str, **fields) -> None:
        self.feed(target.On[name], ticket=self.manager.targets.get(self.key).ticket, **fields)

    def poll(self) -> KVPoll:
        if (end := self.manager.ends.get(self.key)) is not None:
            return (
                KVPoll.Success
                if isinstance(end, target.Loaded) and self.key in self.manager.rows
                else KVPoll.Failed
            )
        record = self.manager.targets.get(self.key)
        if record is None:
            return KVPoll.Bootstrapping
        return (
            KVPoll.WaitingForInput if record.state is target.State.QUEUED else KVPoll.Transferring
        )


def call(name: str, *arguments):
    return lambda party: getattr(party, name)(*arguments)


def event(name: str, **fields):
    return lambda party: party.event(name, **fields)


def agent(is_up: bool):
    return lambda party: party.manager.agent(is_up)


OPEN, END = "source_open sgl-5/0", ["source_tail", "source_end"]
FETCH = "target_open sgl-5/0 skip"
INIT, FIRST = call("init", 4), call("send", [7, 8], 32)
LAST = call("send", [9], 48, [3])
P = KVPoll

SENDER = {
    "chunks, the state and the row with the last": [
        (INIT, [OPEN], P.WaitingForInput),
        (FIRST, ["source_pages 2+0", "source_watch [0, 32)"], P.Transferring),
        (event("ACCEPTED"), [], P.Transferring),
        (LAST, ["source_pages 1+1", "source_watch [32, 48)", *END], P.Transferring),
        (event("ENDED"), [], P.Success),
    ],
    "the receiver comes late": [
        (INIT, [OPEN], P.WaitingForInput),
        (LAST, ["source_pages 1+1", "source_watch [0, 48)", *END], P.Transferring),
        (event("LEASE_LOW"), ["renew"], P.Transferring),
        (event("ACCEPTED"), [], P.Transferring),
        (event("ENDED"), [], P.Success),
    ],
    "abort: failed only after the terminal event": [
        (INIT, [OPEN], P.WaitingForInput),
        (FIRST, ["source_pages 2+0", "source_watch [0, 32)"], P.Transferring),
        (call("abort"), ["cancel"], P.Transferring),
        (LAST, [], P.Transferring),
        (event("ENDED", status="cancelled"), [], P.Failed),
    ],
    "abort before anything was sent": [
        (INIT, [OPEN], P.WaitingForInput),
        (call("abort"), ["cancel"], P.WaitingForInput),
        (event("ENDED", status="cancelled"), [], P.Failed),
    ],
    "the receiver fails": [
        (INIT, [OPEN], P.WaitingForInput),
        (FIRST, ["source_pages 2+0", "source_watch [0, 32)"], P.Transferring),
        (event("ACCEPTED"), [], P.Transferring),
        (event("ENDED", status="peer_lost"), [], P.Failed),
    ],
    "the agent is lost and comes back before the receiver": [
        (INIT, [OPEN], P.WaitingForInput),
        (FIRST, ["source_pages 2+0", "source_watch [0, 32)"], P.Transferring),
        (agent(False), [], P.Transferring),
        (event("LOST"), [], P.Transferring),
        (agent(True), [OPEN, "source_pages 2+0", "source_watch [0, 32)"], P.Transferring),
        (LAST, ["source_pages 1+1", "source_watch [32, 48)", *END], P.Transferring),
        (event("ENDED"), [], P.Success),
    ],
    "the agent is lost under a transfer": [
        (INIT, [OPEN], P.WaitingForInput),
        (FIRST, ["source_pages 2+0", "source_watch [0, 32)"], P.Transferring),
        (event("ACCEPTED"), [], P.Transferring),
        (agent(False), [], P.Transferring),
        (event("LOST", status="agent_lost"), [], P.Failed),
    ],
}

META = call("send_metadata", [1, 2, 3], [4], 48, 16)
RECEIVER = {
    "pages, then the row": [
        (call("init"), [], P.WaitingForInput),
        (META, [f"{FETCH} 16"], P.Transferring),
        (event("ACCEPTED"), [], P.Transferring),
        (event("TAIL", tail=ROW), [], P.Transferring),
        (event("DONE"), [], P.Success),
    ],
    "no row: not a success": [
        (call("init"), [], P.WaitingForInput),
        (META, [f"{FETCH} 16"], P.Transferring),
        (event("DONE"), [], P.Failed),
    ],
    "a failure shows after the terminal event": [
        (call("init"), [], P.WaitingForInput),
        (META, [f"{FETCH} 16"], P.Transferring),
        (event("FAILING", status="aborted"), [], P.Transferring),
        (event("FAILED", status="aborted", token_first=32), [], P.Failed),
    ],
    "abort while pages arrive": [
        (call("init"), [], P.WaitingForInput),
        (META, [f"{FETCH} 16"], P.Transferring),
        (call("abort"), ["cancel"], P.Transferring),
        (event("FAILED", status="cancelled"), [], P.Failed),
    ],
    "abort before there are pages frees the sender": [
        (call("init"), [], P.WaitingForInput),
        (call("abort"), [f"{FETCH} 1"], P.Transferring),
        (event("DONE"), [], P.Bootstrapping),
    ],
    "the whole prefix is here": [
        (call("init"), [], P.WaitingForInput),
        (call("send_metadata", [1, 2, 3], [4], 48, 48), [f"{FETCH} 48"], P.Transferring),
    ],
    "the agent is away": [
        (agent(False), [], P.Bootstrapping),
        (call("init"), [], P.WaitingForInput),
        (META, [], P.Transferring),
        (agent(True), [f"{FETCH} 16"], P.Transferring),
        (event("TAIL", tail=ROW), [], P.Transferring),
        (event("DONE"), [], P.Success),
    ],
}


class Scripts(unittest.TestCase):
    def play(self, party_class: type, scripts: dict) -> None:
        for name, script in scripts.items():
            with self.subTest(name):
                manager = Manager()
                party = party_class(manager, 5)
                for number, (do, calls, poll) in enumerate(script):
                    manager.calls.clear()
                    do(party)
                    self.assertEqual(manager.calls, calls, f"row {number}")
                    self.assertIs(party.poll(), poll, f"row {number}")
                self.assertEqual((manager.sources.impossible, manager.targets.impossible), (0, 0))

    def test_sender(self) -> None:
        self.play(Sender, SENDER)

    def test_receiver(self) -> None:
        self.play(Receiver, RECEIVER)

    def test_a_room_used_again_is_another_request(self) -> None:
        manager = Manager()
        for _ in range(2):
            manager.ends.clear()
            sender = Sender(manager, 5)
            sender.init(3)
            LAST(sender)
            sender.event("ENDED")
            self.assertIs(sender.poll(), KVPoll.Success)


if __name__ == "__main__":
    support.main(__file__)
