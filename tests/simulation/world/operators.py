"""Simulated operators: change and read the metadata at any controller, try again, and compare the answers."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.raft.errors import NotLeaderError, ProposalRefusedError, UnansweredError
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import NodeId
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tests.simulation.world.controllers import Cluster, Controller
from tests.simulation.world.world import MS, World

PATIENCE_US = 700 * MS
"""Without an answer for so long, another controller is asked."""
AGAIN_US = 60 * MS
"""Between an answer that nobody leads and the next attempt, at most."""

REMOVE_TRIES = 20
REMOVE_AGAIN_US = 100 * MS
"""A removal is asked for again and again, as Admin does, until those who stay have answered."""

CommandMaker = Callable[[World, "Operator"], pb.Command]


@dataclass(slots=True)
class Asked:
    """A question under way. A write may be applied more than once: commands are idempotent."""

    number: int
    command: bytes
    """Empty: a read."""
    since: int
    attempts: int = 0


class Operator:
    """One who asks one thing after another, at a machine of its own."""

    def __init__(self, cluster: Cluster, name: str, make: CommandMaker, pause_us: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.active = True
        self.answered = 0
        self.topic_ids: list[int] = []
        """Of topics that exist, as far as this one knows."""
        self._make = make
        self._pause_us = pause_us
        self._asked: Asked | None = None
        self._number = 0
        self.target = 1
        """The controller that is asked next."""

    @property
    def is_waiting(self) -> bool:
        """Whether a question is under way."""
        return self._asked is not None

    def act(self) -> None:
        """Asks the next thing, unless one is under way."""
        if self.active:
            self.world.after(self.world.between(1, 2 * self._pause_us), None, self.act)
        if self._asked is None and self.active:
            self.ask(b"" if self.world.chance(0.3) else self._make(self.world, self).SerializeToString())

    def ask(self, command: bytes) -> None:
        """A command, or a read (empty)."""
        self._number += 1
        self._asked = Asked(self._number, command, self.cluster.metadata_books.begins())
        if not command and self.world.chance(0.5):
            self.target = self.world.between(1, len(self.cluster.nodes))  # followers answer, too
        self._send()

    def _send(self) -> None:
        asked = self._asked
        assert asked is not None
        asked.attempts += 1
        number, attempt = asked.number, asked.attempts
        node = self.cluster.nodes[self.target]
        self.cluster.network.post(self.name, node.name, lambda: self._arrive(node, number, attempt))
        self.world.after(PATIENCE_US, None, lambda: self._give_up(number, attempt))

    def _give_up(self, number: int, attempt: int) -> None:
        asked = self._asked
        if asked is not None and (asked.number, asked.attempts) == (number, attempt):
            self.target = self.world.between(1, len(self.cluster.nodes))
            self._send()

    # --- at the controller ---

    def _arrive(self, node: Controller, number: int, attempt: int) -> None:
        if node.life is not None:
            self.world.after(0, node.life, lambda: self._serve(node, number, attempt))

    def _serve(self, node: Controller, number: int, attempt: int) -> None:
        asked, driver = self._asked, node.driver
        if asked is None or asked.number != number or driver is None:
            return
        if asked.command:
            driver.propose(asked.command, lambda result: self._answer(node, number, result))
        else:

            def done(error: Exception | None) -> None:
                self._answer(node, number, error if error is not None else driver.applied)

            driver.read(done)

    def _answer(self, node: Controller, number: int, result: CommandOutcome | int | Exception) -> None:
        self.cluster.network.post(node.name, self.name, lambda: self._take(node, number, result))

    # --- the answer ---

    def _take(self, node: Controller, number: int, result: CommandOutcome | int | Exception) -> None:
        asked = self._asked
        if asked is None or asked.number != number:
            return  # answered already
        if isinstance(result, Exception):
            if isinstance(result, NotLeaderError) and result.leader is not None:
                self.target = result.leader.ordinal
                self._send()
            else:  # soon again: whoever leads next is asked as early as can be
                number, attempts = asked.number, asked.attempts
                self.world.after(
                    self.world.between(1, AGAIN_US), None, lambda: self._give_up(number, attempts)
                )
            return
        self._asked = None
        self.answered += 1
        books = self.cluster.metadata_books
        if isinstance(result, int):
            self.world.counts["metadata reads"] += 1
            books.told_of_read(asked.since, result)
            return
        self.world.counts["metadata writes"] += 1
        books.told_of_write(asked.since, result.delta.index, asked.command)
        if result.rejection is None:
            self._learn(pb.Command.FromString(asked.command), result)

    def _learn(self, command: pb.Command, outcome: CommandOutcome) -> None:
        kind = command.WhichOneof("command")
        if kind == "create_topic":
            self.topic_ids.append(outcome.topic_id)
        elif kind == "delete_topic" and outcome.topic_id in self.topic_ids:
            self.topic_ids.remove(outcome.topic_id)


class Watcher:
    """Reads from all controllers at once, again and again: who answers last must not have seen less."""

    def __init__(self, cluster: Cluster, pause_us: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.active = True
        self._pause_us = pause_us

    def act(self) -> None:
        """Asks everybody."""
        if not self.active:
            return
        self.world.after(self.world.between(1, 2 * self._pause_us), None, self.act)
        self.look()

    def look(self) -> None:
        """Asks everybody, once."""
        since = self.cluster.metadata_books.begins()
        for node in self.cluster.nodes.values():
            self.cluster.network.post("w", node.name, partial(self._arrive, node, since))

    def _arrive(self, node: Controller, since: int) -> None:
        if node.life is not None:
            self.world.after(0, node.life, partial(self._serve, node, since))

    def _serve(self, node: Controller, since: int) -> None:
        driver = node.driver
        if driver is None:
            return

        def done(error: Exception | None) -> None:
            if error is None:
                seen = driver.applied
                self.cluster.network.post(node.name, "w", lambda: self._told(since, seen))

        driver.read(done)

    def _told(self, since: int, seen: int) -> None:
        self.world.counts["metadata reads"] += 1
        self.cluster.metadata_books.told_of_read(since, seen)


def any_command(world: World, operator: Operator) -> pb.Command:
    """Of all kinds that need no broker's stream."""
    topics = operator.topic_ids or [1]
    command = pb.Command(now_ms=world.now_ms())
    match world.between(0, 5):
        case 0:
            command.register_broker.CopyFrom(
                pb.RegisterBroker(
                    broker_id=world.between(1, 4),
                    incarnation=world.random_bytes(16),
                    disk_uuid=bytes(16),
                    tail_sure=True,
                    rack=world.random.choice(("", "r1")),
                    max_level=OWN.highest,
                )
            )
        case 1:
            name = f"t{world.between(1, 6)}"
            partitions, factor = world.between(1, 3), world.between(0, 3)
            create = pb.CreateTopic(name=name, partitions=partitions, replication_factor=factor)
            command.create_topic.CopyFrom(create)
        case 2:
            alter = pb.AlterTopic(topic_id=world.random.choice(topics), partitions=world.between(0, 5))
            command.alter_topic.CopyFrom(alter)
        case 3:
            command.delete_topic.CopyFrom(pb.DeleteTopic(topic_id=world.random.choice(topics)))
        case 4:
            name = world.random.choice(("", "p", "q"))
            command.init_producer.CopyFrom(pb.InitProducer(name=name, generation=world.between(0, 3)))
        case _:
            position = pb.Position(
                topic_id=world.random.choice(topics), sequence_number=world.between(1, 1000)
            )
            command.commit_positions.CopyFrom(pb.CommitPositions(group="g", positions=[position]))
    return command


def transfer(cluster: Cluster) -> None:
    """Somebody moves leadership."""
    leader = cluster.leader()
    if leader is None or leader.life is None:
        return
    driver, life = leader.driver, leader.life
    target = cluster.world.random.choice(leader.raft.configuration.voters)

    def move() -> None:
        assert driver is not None
        with contextlib.suppress(ProposalRefusedError):
            driver.transfer_leadership(target)

    cluster.world.say(leader.name, "is asked to hand leadership to %s", target.ordinal)
    cluster.world.after(0, life, move)


def remove(cluster: Cluster, count: int) -> set[NodeId]:
    """Somebody removes so many controllers, one right after the other; which."""
    leader = cluster.leader()
    if leader is None or leader.life is None:
        return set()
    driver, life = leader.driver, leader.life
    voters = leader.raft.configuration.voters
    others = [node for node in voters if node != leader.own]
    chosen = cluster.world.random.sample(others, min(count, len(others)))

    def change(node: NodeId, tries: int) -> None:
        def noted(result: object) -> None:
            if isinstance(result, UnansweredError) and tries > 1:
                cluster.world.after(REMOVE_AGAIN_US, life, partial(change, node, tries - 1))

        assert driver is not None
        driver.change(Change(MembershipChangeKind.REMOVE, node), noted)

    def change_all() -> None:
        for node in chosen:
            change(node, REMOVE_TRIES)

    cluster.world.fault("controller removed", "%s", [str(node) for node in chosen])
    cluster.world.after(0, life, change_all)
    cluster.removes_until = cluster.world.now + REMOVE_TRIES * REMOVE_AGAIN_US
    return set(chosen)


def bring_back(cluster: Cluster, removed: set[NodeId]) -> None:
    """Who has been removed is put up again, with an empty disk, and asks to be added."""
    leader = cluster.leader()
    if leader is None or leader.raft.log.configuration_index > leader.raft.log.commit:
        return
    for node in cluster.nodes.values():
        if node.own in removed and node.own not in leader.raft.configuration.members:
            removed.discard(node.own)
            node.empty()
            node.start()
