"""The machine of a group of the consumer protocol, with a clock, topics and a log that tests move."""

from collections.abc import Mapping, Sequence

from tank_node.coordinators.consumer.consumer_group import ConsumerGroup
from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_actions import Answer, StoreRecords
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.records.consumer_records import ConsumerImage, ConsumerRecord
from tank_node.coordinators.records.group_records import read
from tank_protos.generated.kafka.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
    TopicPartitionCollection,
)
from tests.support.groups.known_topics import KnownTopics

SESSION_MS = 45_000
HEARTBEAT_MS = 5_000
REBALANCE_MS = 60_000
ORDERS = ("orders",)
Owned = Mapping[str, Sequence[int]]


def subscription(topics: Sequence[str], owned: Owned | None = None, version: int = 1) -> bytes:
    """What a classic consumer says in its metadata."""
    has = TopicPartitionCollection(TopicPartition(name, list(each)) for name, each in (owned or {}).items())
    said = ConsumerProtocolSubscription(list(topics), None, has).encode(version)
    return b"".join((version.to_bytes(2, "big"), *said))


class ConsumerScene:
    """One group. Changes are stored at once, unless `stores_at_once` is False: then by `store` or `fail`."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: GroupSettings | None = None,
    ) -> None:
        self.settings = settings or GroupSettings()
        self.topics = KnownTopics({"orders": 4} if topics is None else topics)
        self.now_ms = 0
        self.stores_at_once = True
        self.unstored: list[StoreRecords] = []
        self.image = ConsumerImage()
        self.records: dict[bytes, bytes | None] = {}
        self._ids = 0
        self.group = ConsumerGroup("g", self.settings, self.topics, self.new_id)

    def new_id(self, prefix: str) -> str:
        """An id that no member has had."""
        self._ids += 1
        return f"{prefix}-{self._ids}"

    # Requests

    def send(self, heartbeat: ConsumerHeartbeat) -> list[ConsumerHeartbeatAnswer]:
        """Sends a heartbeat; its answer comes into the list."""
        answers: list[ConsumerHeartbeatAnswer] = []
        self.group.consumer_heartbeat(self.now_ms, heartbeat, answers)
        self.act()
        return answers

    def begin_join(
        self,
        member_id: str,
        topics: Sequence[str] | None = ORDERS,
        *,
        instance_id: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = REBALANCE_MS,
    ) -> list[ConsumerHeartbeatAnswer]:
        return self.send(
            ConsumerHeartbeat(
                "g",
                member_id,
                instance_id,
                0,
                None,
                rebalance_ms,
                None if topics is None else tuple(topics),
                regex,
                assignor,
                {},
                "client",
                "/10.0.0.7",
            )
        )

    def join(self, member_id: str, topics: Sequence[str] | None = ORDERS, **more: object) -> "Heard":
        """Joins, and gives the answer, which comes at once."""
        (answer,) = self.begin_join(member_id, topics, **more)  # type: ignore[arg-type]
        return Heard(answer)

    def go_on(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        topics: Sequence[str] | None = None,
        instance_id: str | None = None,
        is_full: bool = False,
    ) -> "Heard":
        """A member's heartbeat, whose answer comes at once."""
        said = None if owned is None else {name: tuple(each) for name, each in owned.items()}
        names = ORDERS if topics is None and is_full else topics
        heartbeat = ConsumerHeartbeat(
            "g",
            member_id,
            instance_id,
            epoch,
            rebalance_ms=REBALANCE_MS if is_full else -1,
            topics=None if names is None else tuple(names),
            owned=said,
            client_id="client",
            client_host="/10.0.0.7",
        )
        (answer,) = self.send(heartbeat)
        return Heard(answer)

    def leave(self, member_id: str, *, instance_id: str | None = None, epoch: int = -1) -> "Heard":
        return self.go_on(member_id, epoch, instance_id=instance_id)

    def commit(self, member_id: str, epoch: int) -> GroupError:
        request = CommitRequest(MemberName("g", member_id), epoch, {}, GroupError.UNKNOWN_GROUP)
        return self.group.check_commit(self.now_ms, request)

    # Requests of classic members

    def classic_join(
        self,
        member_id: str = "",
        topics: Sequence[str] = ORDERS,
        owned: Owned | None = None,
        *,
        instance_id: str | None = None,
        needs_member_id: bool = False,
        protocols: Sequence[str] = ("range",),
    ) -> JoinAnswer:
        answers: list[JoinAnswer] = []
        metadata = subscription(topics, owned)
        request = JoinRequest(
            MemberName("g", member_id, instance_id),
            "old",
            "/10.0.0.8",
            10_000,
            REBALANCE_MS,
            "consumer",
            tuple((name, metadata) for name in protocols),
            needs_member_id,
        )
        self.group.join(self.now_ms, request, answers)
        self.act()
        (answer,) = answers
        return answer

    def classic_sync(self, member_id: str, generation: int) -> SyncAnswer:
        answers: list[SyncAnswer] = []
        self.group.sync(self.now_ms, SyncRequest(MemberName("g", member_id), generation), answers)
        self.act()
        (answer,) = answers
        return answer

    def classic_heartbeat(self, member_id: str, generation: int) -> GroupError:
        error = self.group.heartbeat(self.now_ms, MemberName("g", member_id), generation)
        self.act()
        return error

    # What the world does

    def act(self) -> None:
        """What the machine wants done is done."""
        for action in self.group.take_actions(1_000_000 + self.now_ms):
            if isinstance(action, Answer):
                assert isinstance(action.token, list)
                action.token.append(action.answer)
            else:
                assert isinstance(action, StoreRecords)
                self.unstored.append(action)
        if self.stores_at_once and self.unstored:
            self.store()

    def store(self) -> None:
        """The oldest change that isn't stored is below the mark."""
        change = self.unstored.pop(0)
        self.keep(change)
        self.group.stored(self.now_ms, change.change, GroupError.NONE)
        self.act()

    def keep(self, change: StoreRecords) -> None:
        """The change is in the log."""
        for key, value in change.records:
            self.records[key] = value
            record = read(key, value)
            if isinstance(record, ConsumerRecord):
                self.image.take(record.key, record.value)

    def fail(self, error: GroupError = GroupError.NOT_AVAILABLE) -> None:
        """The oldest change that isn't stored has failed."""
        self.group.stored(self.now_ms, self.unstored.pop(0).change, error)
        self.act()

    def move(self) -> None:
        """Another coordinator has read the log."""
        self.unstored.clear()
        image, self.image = self.image, ConsumerImage()
        for key, value in self.records.items():
            record = read(key, value)
            if isinstance(record, ConsumerRecord):
                self.image.take(record.key, record.value)
        assert vars(image) == vars(self.image)
        self.group = ConsumerGroup.from_image(
            "g", self.settings, self.topics, self.new_id, self.image, self.now_ms
        )

    def wait(self, ms: int) -> None:
        """Time goes by; what has a deadline is done at it."""
        until = self.now_ms + ms
        while (due := self.group.next_deadline_ms()) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            self.group.expire(self.now_ms)
            self.act()
        self.now_ms = until

    # What is seen

    def is_in(self, state: GroupState) -> bool:
        """Whether tools show this state."""
        return self.group.state is state

    @property
    def epoch(self) -> int:
        """The group's epoch."""
        return self.group.described_consumer().epoch

    @property
    def members(self) -> set[str]:
        """The members' ids."""
        return {each.member_id for each in self.group.described_consumer().members}


class Heard:
    """What a member heard."""

    def __init__(self, answer: ConsumerHeartbeatAnswer) -> None:
        self.error = answer.error
        self.message = answer.message
        self.member_id = answer.member_id
        self.epoch = answer.member_epoch
        self.heartbeat_ms = answer.heartbeat_ms
        self.assignment = None if answer.assignment is None else dict(answer.assignment)

    @property
    def orders(self) -> tuple[int, ...]:
        """The partitions of `orders` that the member is to have."""
        assert self.assignment is not None, "no assignment came"
        return self.assignment.get("orders", ())


def two_members(scene: ConsumerScene) -> None:
    """`a` and `b` have two partitions of `orders` each, in epoch 2."""
    assert scene.join("a").orders == (0, 1, 2, 3)
    assert scene.join("b").orders == ()
    told = scene.go_on("a", 1)
    assert (told.epoch, told.orders) == (1, (0, 1))
    assert scene.go_on("a", 1, {"orders": (0, 1)}).epoch == 2
    assert scene.go_on("b", 2).orders == (2, 3)
    assert scene.is_in(GroupState.STABLE)
