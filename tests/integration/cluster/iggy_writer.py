"""An Iggy client that sends numbered messages while brokers come and go, and knows what was acknowledged."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

from tank_protos.generated.iggy import CreateStreamRequest, CreateTopicRequest
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tests.support.iggy.client_messages import ClientMessage
from tests.support.iggy.era_socket import EraSocket
from tests.support.iggy.iggy_line import IggyStatus

STREAM: Final = "upgraded"
TOPIC: Final = "orders"
PARTITIONS: Final = 3
AGAIN_S: Final = 0.1
_RETRIED: Final = {IggyError.DISCONNECTED, IggyError.FEATURE_UNAVAILABLE}
"""What stock libraries answer with another attempt."""
_THERE: Final = {IggyError.STREAM_NAME_ALREADY_EXISTS, IggyError.TOPIC_NAME_ALREADY_EXISTS}
"""An attempt whose answer was lost was carried out."""


class IggyWriter:
    """Logs in, makes its stream and topic, and sends in a thread of its own. It tries again at the next
    broker what wasn't acknowledged, as stock libraries do at theirs: a message whose answer was lost may be
    there twice."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        """By partition, in order."""
        self.refused: list[str] = []
        """Errors that no retry heals; it has ended with the first."""
        self._addresses = itertools.cycle(addresses)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="iggy-writer", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """How many messages were acknowledged."""
        return sum(map(len, self.acknowledged))

    def end(self) -> None:
        """Returns when the last message is acknowledged."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        self._numbers = itertools.count()
        self._next = next(self._numbers)
        while not self._stopping.is_set() and not self.refused:
            try:
                with EraSocket(next(self._addresses)) as client:
                    self._use(client)
            except IggyStatus as status:
                if status.code not in _RETRIED:
                    self.refused.append(str(status))
            except OSError:
                pass  # the broker is away
            time.sleep(AGAIN_S)

    def _use(self, client: EraSocket) -> None:
        client.login()
        with _lost_answers_ignored():
            client.tell(CreateStreamRequest(name=STREAM))
        with _lost_answers_ignored():
            client.tell(CreateTopicRequest(stream=of_name(STREAM), partitions_count=PARTITIONS, name=TOPIC))
        while not self._stopping.is_set():
            partition, payload = self._next % PARTITIONS, b"message %d" % self._next
            client.send_messages(STREAM, TOPIC, [ClientMessage(payload)], partition=partition)
            self.acknowledged[partition].append(payload)
            self._next = next(self._numbers)
            time.sleep(AGAIN_S / 10)


@contextlib.contextmanager
def _lost_answers_ignored() -> Iterator[None]:
    try:
        yield
    except IggyStatus as status:
        if status.code not in _THERE:
            raise


def missing(client: EraSocket, writer: IggyWriter) -> list[bytes]:
    """What was acknowledged, and isn't there once, or only behind a later message."""
    lost: list[bytes] = []
    for partition, sent in enumerate(writer.acknowledged):
        first = dict.fromkeys(client.all_of(STREAM, TOPIC, partition))  # in the order of their first places
        acknowledged = set(sent)
        in_order = [payload for payload in first if payload in acknowledged]
        lost += [a for a, b in itertools.zip_longest(sent, in_order) if a != b and a is not None]
    return lost
