"""What brokers of other projects are asked in place of Tank Cluster's own messages: topics and ends."""

from collections.abc import Iterable

from tank_client import errors
from tank_client.model import Ends
from tank_client.routing.calls import Calls
from tank_client.wire import topic_operations
from tank_client.wire.data_operations import Want, fetch


async def discovered_topics(calls: Calls, wanted: Iterable[str]) -> dict[str, tuple[int, int]]:
    """{topic: (partitions, replicas)}, sorted; of all topics when none are named. Raises UnknownTopic."""
    topics = await calls.call(topic_operations.discover_topics())
    names = list(wanted)
    for name in names:
        if name not in topics:
            raise errors.UnknownTopic(name)
    return {name: topics[name] for name in sorted(names or topics)}


async def ends_by_fetching(calls: Calls, topic: str, partition: int) -> Ends:
    """A partition's ends. A broker of the old document gives them in the answer to any fetch."""
    try:
        chunk = await calls.call(fetch(Want(topic, partition, 0, 1), 0, calls.settings.client_id))
    except errors.OutOfBounds as bounds:
        return Ends(bounds.first_available, bounds.high_water_mark)
    return Ends(chunk.base, chunk.high_water_mark)
