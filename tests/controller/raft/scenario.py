"""Scenarios as text: a command on a line behind "> ", what it shows indented below, prose between.

> nodes 1 2 3              a cluster (learners 4; chunk_bytes=10 and other settings may follow)
> campaign 1               time passes at 1 until it asks for votes
> tick 1 5, tick all 5     time passes; `patience` lets leases of all run out without an election
> deliver                  all messages and what they lead to; 1 to 2: those alone; 3 of them: so many
> settle                   the same, without showing them
> drop 1 to 2, repeat 1 to 2, show mail
> cut 1 from 2 3, heal     nothing gets through
> hold 1, release 1        its disk writes nothing meanwhile
> propose 1 a b c, read 1, transfer 1 to 2, change 1 add learner 4, compact 1
> crash 1, restart 1, wipe 1
> show                     every node
"""

import dataclasses
import shlex

from tank_controller.raft.errors import ProposalRefusedError
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import (
    Append,
    AppendAnswer,
    Body,
    EndAnswer,
    EndRequest,
    EntryKind,
    Heartbeat,
    HeartbeatAnswer,
    LogEntry,
    NodeId,
    RaftMessage,
    ReadAnswer,
    ReadRequest,
    SnapshotAnswer,
    SnapshotChunk,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole
from tests.controller.raft.world import World


class Scenario:
    """Runs a file's commands, one after the other."""

    def __init__(self) -> None:
        self.world = World((), _zero, Settings())
        self.shown: list[str] = []

    def run(self, text: str) -> str:
        """The file again, with what its commands show now."""
        result: list[str] = []
        for line in text.splitlines():
            if line.startswith("    "):
                continue
            result.append(line)
            if line.startswith("> "):
                result += (f"    {shown}" for shown in self.command(line[2:]))
        return "\n".join(result) + "\n"

    def command(self, line: str) -> list[str]:
        """One command; what it shows."""
        name, *words = shlex.split(line)
        self.shown = []
        self.world.outcomes.clear()
        getattr(self, f"on_{name}")(words)
        self.world.flush_disks()
        return self.shown + self.world.outcomes

    # --- Commands ---

    def on_nodes(self, words: list[str]) -> None:
        numbers: dict[str, list[int]] = {"voters": [], "learners": []}
        settings = {}
        into = numbers["voters"]
        for word in words:
            if word in numbers:
                into = numbers[word]
            elif "=" in word:
                key, _, value = word.partition("=")
                settings[key] = int(value)
            else:
                into.append(int(word))
        chosen = dataclasses.replace(Settings(), **settings)
        self.world = World(numbers["voters"], _zero, chosen, numbers["learners"])

    def on_campaign(self, words: list[str]) -> None:
        ordinal = int(words[0])
        raft = self.world.nodes[ordinal].raft
        raft.votes = {}
        for _ in range(2 * self.world.settings.election_ticks):
            self.world.tick(ordinal)
            if raft.votes or raft.role is RaftRole.LEADER:
                return
        self.shown.append(f"{ordinal} doesn't campaign")

    def on_tick(self, words: list[str]) -> None:
        who = list(self.world.nodes) if words[0] == "all" else [int(words[0])]
        for _ in range(int(words[1]) if len(words) > 1 else 1):
            for ordinal in who:
                if self.world.nodes[ordinal].driver is not None:
                    self.world.tick(ordinal)
            self.world.flush_disks()

    def on_patience(self, words: list[str]) -> None:
        for node in self.world.running():
            if node.raft.role is not RaftRole.LEADER:
                node.raft.election_elapsed = self.world.settings.election_ticks

    def on_deliver(self, words: list[str]) -> None:
        ends = _ends(words)
        limit = int(words[0]) if words and ends is None else 1000
        self.world.flush_disks()
        while limit and (found := [m for m in self.world.network if ends is None or _between(m) == ends]):
            message = found[0]
            self.world.network.remove(message)
            lost = (
                _between(message) in self.world.cuts
                or self.world.nodes[message.target.ordinal].driver is None
            )
            self.shown.append(text_of(message) + (" (lost)" if lost else ""))
            self.world.deliver(message)
            if ends is None:
                self.world.flush_disks()
            limit -= 1

    def on_settle(self, words: list[str]) -> None:
        shown = self.shown
        self.shown = []
        self.on_deliver(words)
        self.shown = shown

    def on_drop(self, words: list[str]) -> None:
        ends = _ends(words)
        self.world.network = [m for m in self.world.network if ends is not None and _between(m) != ends]

    def on_repeat(self, words: list[str]) -> None:
        self.world.network += [m for m in self.world.network if _between(m) == _ends(words)]

    def on_cut(self, words: list[str]) -> None:
        alone = int(words[0])
        for other in map(int, words[2:]):
            self.world.cuts |= {(alone, other), (other, alone)}

    def on_heal(self, words: list[str]) -> None:
        self.world.cuts.clear()

    def on_hold(self, words: list[str]) -> None:
        self.world.nodes[int(words[0])].disk.held = True

    def on_release(self, words: list[str]) -> None:
        self.world.nodes[int(words[0])].disk.held = False

    def on_propose(self, words: list[str]) -> None:
        for data in words[1:]:
            self.world.propose(int(words[0]), data.encode())

    def on_read(self, words: list[str]) -> None:
        self.world.read(int(words[0]))

    def on_transfer(self, words: list[str]) -> None:
        self._attempt(
            lambda: self.world.driver(int(words[0])).transfer_leadership(self.world.nodes[int(words[2])].own)
        )

    def on_change(self, words: list[str]) -> None:
        kind = MembershipChangeKind(" ".join(words[1:-1]).removesuffix(" old"))
        node = self.world.nodes.get(int(words[-1]))
        own = node.own if node else self.world.new_id(int(words[-1]))
        if words[-2] == "old":
            own = min(disk for disk in self.world.disks if disk.ordinal == own.ordinal)
        if node is None:
            self.world.add(own)

        def done(result: object) -> None:
            self.shown.append(f"{' '.join(words[1:])}: {'done' if result is None else result}")

        self.world.driver(int(words[0])).change(Change(kind, own), done)

    def on_broken(self, words: list[str]) -> None:
        """The stream from the second to the first: `broken 2 from 1`."""
        self.world.nodes[int(words[0])].raft.broken(self.world.nodes[int(words[2])].own)

    def on_compact(self, words: list[str]) -> None:
        ordinal = int(words[0])
        self.world.nodes[ordinal].storage.snapshot_due = True
        self.world.tick(ordinal)

    def on_crash(self, words: list[str]) -> None:
        self.world.crash(int(words[0]))

    def on_restart(self, words: list[str]) -> None:
        self.world.start(int(words[0]))

    def on_wipe(self, words: list[str]) -> None:
        self.world.wipe(int(words[0]))
        self.world.start(int(words[0]))

    def on_show(self, words: list[str]) -> None:
        if words == ["mail"]:
            self.shown += [text_of(message) for message in self.world.network]
            return
        for ordinal, node in sorted(self.world.nodes.items()):
            if node.driver is None:
                self.shown.append(f"{ordinal} is down")
                continue
            raft, log = node.raft, node.raft.log
            first = f"snapshot {log.base_index}@{log.base_term}, " if log.base_index else ""
            entries = " ".join(_entry(entry) for entry in log.entries)
            refused = "".join(
                f", refused {n} {kind}" for kind, n in sorted(node.driver.figures.refused_messages.items())
            )
            self.shown.append(
                f"{ordinal} {raft.role.value}, term {raft.term}, {first}log {entries or 'empty'}, "
                f"commit {log.commit}{refused}"
            )

    def on_members(self, words: list[str]) -> None:
        found = self.world.nodes[int(words[0])].raft.configuration
        self.shown.append(f"voters {_nodes(found.voters)}, learners {_nodes(found.learners)}")

    def on_follower(self, words: list[str]) -> None:
        """What a leader (first word) knows of another."""
        progress = self.world.nodes[int(words[0])].raft.progress[self.world.nodes[int(words[1])].own]
        self.shown.append(
            f"{progress.flow.name.lower()}, matched {progress.matched}, next {progress.next_index}, "
            f"{len(progress.in_flight)} in flight"
        )

    def _attempt(self, what: object) -> None:
        assert callable(what)
        try:
            what()
        except ProposalRefusedError as error:
            self.shown.append(f"{type(error).__name__}: {error}")


def _zero(below: int) -> int:
    return 0


def _ends(words: list[str]) -> tuple[int, int] | None:
    return (int(words[0]), int(words[2])) if len(words) == 3 else None


def _between(message: RaftMessage) -> tuple[int, int]:
    return message.sender.ordinal, message.target.ordinal


def _nodes(nodes: tuple[NodeId, ...]) -> str:
    return " ".join(map(str, nodes)) or "none"


def _entry(entry: LogEntry) -> str:
    shown = {EntryKind.NO_OP: "no-op", EntryKind.CONFIGURATION: "members"}.get(
        entry.kind, entry.data.decode()
    )
    return f"{entry.index}@{entry.term}:{shown}"


def text_of(message: RaftMessage) -> str:
    """A message in one line."""
    return f"{message.sender.ordinal} to {message.target.ordinal}, term {message.term}: {_body(message.body)}"


def _body(body: Body) -> str:
    match body:
        case VoteRequest():
            kind = "would you vote for me" if body.pre else "vote for me"
            return (
                f"{kind}, my log ends with {body.last_index}@{body.last_term}{', I was told to' * body.force}"
            )
        case VoteAnswer():
            return f"{'yes' if body.granted else 'no'}{', I would' * (body.pre and body.granted)}"
        case Append():
            entries = " ".join(map(_entry, body.entries)) or "nothing"
            return f"append {entries} after {body.prev_index}@{body.prev_term}, commit {body.commit}"
        case AppendAnswer():
            if body.rejected:
                return f"not after {body.index}, perhaps after {body.hint_index}@{body.hint_term}"
            return f"I have {body.index}"
        case Heartbeat():
            return f"heartbeat, commit {body.commit}, round {body.round}"
        case HeartbeatAnswer():
            return f"I am here, round {body.round}"
        case SnapshotChunk():
            end = body.offset + len(body.data)
            meta = body.meta
            return f"snapshot {meta.index}@{meta.term}, bytes {body.offset} to {end} of {meta.size}"
        case SnapshotAnswer():
            return f"I have {body.received} bytes of snapshot {body.index}@{body.term}"
        case TimeoutNow():
            return "lead"
        case ReadRequest():
            return "up to where must I read"
        case ReadAnswer():
            return "I don't know" if body.index is None else f"read up to {body.index}"
        case EndRequest():
            return "where does your log end"
        case EndAnswer():
            return f"my log ends with {body.last_index}@{body.last_term}"
