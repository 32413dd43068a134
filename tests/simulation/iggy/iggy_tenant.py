"""A client that makes the streams, topics and groups of a story, changes and empties them, removes them, and
makes them again."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tank_protos.generated.iggy import (
    AddPartitionsRequest,
    CreateConsumerGroupRequest,
    CreateStreamRequest,
    CreateTopicRequest,
    DeleteConsumerGroupRequest,
    DeleteStreamRequest,
    DeleteTopicRequest,
    PurgeStreamRequest,
    PurgeTopicRequest,
    RemovePartitionsRequest,
    UpdateStreamRequest,
    UpdateTopicRequest,
)
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.wire.message import Message
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_visitor import STREAM, IggyVisitor

GROUP: Final = "readers"
"""Every topic has one group, of this name."""
_OTHER_NAME: Final = "renamed"
"""What a stream or topic is called for a while."""
_FEWEST_PARTITIONS: Final = 1
_MOST_PARTITIONS: Final = 4


@dataclass(slots=True)
class Tenancy:
    """A topic that is wanted."""

    name: str
    partitions: int
    replication_factor: int
    present: int = 0
    """How many partitions it has, as far as the tenant knows."""


@dataclass(slots=True)
class _Step:
    """A request that is to be made."""

    request: Message
    done: Callable[[], None] = lambda: None
    """Called when it ended well."""
    unless: frozenset[IggyError] = field(default_factory=frozenset)
    """Errors that say that it was done before, or that there is nothing to do."""


_IS_THERE: Final = frozenset(
    {
        IggyError.STREAM_NAME_ALREADY_EXISTS,
        IggyError.TOPIC_NAME_ALREADY_EXISTS,
        IggyError.CONSUMER_GROUP_NAME_ALREADY_EXISTS,
    }
)
_IS_GONE: Final = frozenset(
    {
        IggyError.STREAM_NAME_NOT_FOUND,
        IggyError.TOPIC_NAME_NOT_FOUND,
        IggyError.CONSUMER_GROUP_ID_NOT_FOUND,
    }
)


class IggyTenant(IggyVisitor):
    """Makes what a list of steps says; now and then, when all is there, it begins something else."""

    def __init__(
        self,
        ledger: IggyLedger,
        pause_us: int,
        name: str,
        topics: list[Tenancy],
        unrest: float,
        chance: Random,
    ) -> None:
        """unrest: how often it changes something when all is there."""
        super().__init__(ledger, pause_us, name)
        self.topics = topics
        self.unrest = unrest
        self._chance = chance
        self._steps: deque[_Step] = deque()
        self._has_made = False
        """Whether everything was there once, and nothing was removed since."""
        self._wants_all()

    @property
    def has_all(self) -> bool:
        """Whether everything is there, as far as it knows."""
        return not self._steps

    def _wants_all(self) -> None:
        """Makes what is not there."""
        stream = of_name(STREAM)
        self._steps.append(_Step(CreateStreamRequest(name=STREAM), unless=_IS_THERE))
        for topic in self.topics:
            made = CreateTopicRequest(
                stream,
                partitions_count=topic.partitions,
                replication_factor=topic.replication_factor,
                name=topic.name,
            )
            group = CreateConsumerGroupRequest(stream, of_name(topic.name), name=GROUP)
            self._steps.append(_Step(made, self._counts(topic, topic.partitions), _IS_THERE))
            self._steps.append(_Step(group, unless=_IS_THERE))

    @staticmethod
    def _counts(topic: Tenancy, count: int) -> Callable[[], None]:
        def done() -> None:
            topic.present = count

        return done

    # --- changes ---

    def next_request(self) -> None:
        if not self._steps:
            if self.is_settled or self._chance.random() >= self.unrest:
                return
            self._change()
        self.ask(self._steps[0].request)

    def _change(self) -> None:
        topic = self._chance.choice(self.topics)
        often = (self._purge, self._grow, self._shrink)
        seldom = (self._purge_all, self._remove, self._remove_all, self._remove_group)
        renames = (self._rename, self._rename_stream)
        self._chance.choice((*often, *often, *seldom, *renames))(topic)

    def _does(self, what: str, *steps: _Step) -> None:
        self.world.counts[f"iggy {what}"] += 1
        self.world.say(self.name, "does: %s", what)
        self._steps.extend(steps)

    def _purge(self, topic: Tenancy) -> None:
        request = PurgeTopicRequest(of_name(STREAM), of_name(topic.name))
        self._does("topics purged", _Step(request, unless=_IS_GONE))

    def _purge_all(self, topic: Tenancy) -> None:
        self._does("streams purged", _Step(PurgeStreamRequest(of_name(STREAM)), unless=_IS_GONE))

    def _remove(self, topic: Tenancy) -> None:
        request = DeleteTopicRequest(of_name(STREAM), of_name(topic.name))
        self._does("topics deleted", _Step(request, unless=_IS_GONE))
        self._wants_all()

    def _remove_all(self, topic: Tenancy) -> None:
        self._does("streams deleted", _Step(DeleteStreamRequest(of_name(STREAM)), unless=_IS_GONE))
        self._wants_all()

    def _remove_group(self, topic: Tenancy) -> None:
        request = DeleteConsumerGroupRequest(of_name(STREAM), of_name(topic.name), group=of_name(GROUP))
        self._does("groups deleted", _Step(request, unless=_IS_GONE))
        self._wants_all()

    def _grow(self, topic: Tenancy) -> None:
        if topic.present < _MOST_PARTITIONS:
            request = AddPartitionsRequest(of_name(STREAM), of_name(topic.name), 1)
            done = self._counts(topic, topic.present + 1)
            self._does(
                "partitions added", _Step(request, done, _IS_GONE | {IggyError.INVALID_PARTITIONS_COUNT})
            )
        else:
            self._shrink(topic)

    def _shrink(self, topic: Tenancy) -> None:
        if topic.present > _FEWEST_PARTITIONS:
            request = RemovePartitionsRequest(of_name(STREAM), of_name(topic.name), 1)
            done = self._counts(topic, topic.present - 1)
            refused = {IggyError.PARTITION_NOT_FOUND, IggyError.INVALID_PARTITIONS_COUNT}
            self._does("partitions removed", _Step(request, done, _IS_GONE | refused))
        else:
            self._grow(topic)

    def _rename(self, topic: Tenancy) -> None:
        """To another name and back. Where the old name was made again meanwhile, the renamed one goes."""
        there = UpdateTopicRequest(of_name(STREAM), of_name(topic.name), name=_OTHER_NAME)
        back = UpdateTopicRequest(of_name(STREAM), of_name(_OTHER_NAME), name=topic.name)
        gone = DeleteTopicRequest(of_name(STREAM), of_name(_OTHER_NAME))
        self._does(
            "topics renamed",
            _Step(there, unless=_IS_GONE | _IS_THERE),
            _Step(back, unless=_IS_GONE | _IS_THERE),
            _Step(gone, unless=_IS_GONE),
        )
        self._wants_all()

    def _rename_stream(self, topic: Tenancy) -> None:
        there = UpdateStreamRequest(of_name(STREAM), _OTHER_NAME)
        back = UpdateStreamRequest(of_name(_OTHER_NAME), STREAM)
        gone = DeleteStreamRequest(of_name(_OTHER_NAME))
        self._does(
            "streams renamed",
            _Step(there, unless=_IS_GONE | _IS_THERE),
            _Step(back, unless=_IS_GONE | _IS_THERE),
            _Step(gone, unless=_IS_GONE),
        )
        self._wants_all()

    # --- answers ---

    def took(self, payload: memoryview) -> None:
        self._steps.popleft().done()

    def refused(self, error: IggyError) -> None:
        if error in self._steps[0].unless:
            self._steps.popleft()
        elif error in _IS_GONE:  # a step before it was done, and undone since
            self._steps.clear()
            self._wants_all()
        else:
            self.line.turn_away()
