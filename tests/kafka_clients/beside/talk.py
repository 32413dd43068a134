"""What a script says to a broker on its connections, and what it hears: note by note."""

import select
from contextlib import suppress
from typing import Any, Final, Protocol

from tank_protos.generated.kafka import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tank_protos.generated.kafka.by_id import RESPONSES
from tank_protos.wire.message import Message
from tests.kafka_clients.beside.answer_text import AnswerText
from tests.support.clients.kafka_calls import create_topic
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.patience import patient
from tests.support.waiting import until

ANSWER_S: Final = patient(20.0)
"""The longest that an answer may take that must come."""
WAITS_S: Final = 0.2
"""How long a request must be unanswered to be noted as one that waits."""
NAMES: Final = 400
"""So many groups have some in each of 50 partitions."""
NEVER: Final = "no answer"
CLOSED: Final = "the connection is closed"


class Server(Protocol):
    """Kafka, or a broker of ours."""

    @property
    def port(self) -> int:
        """For Kafka's clients, on loopback."""

    def restart(self) -> None:
        """An orderly stop, then a start."""


class Line:
    """One connection. Its requests are answered in their order."""

    def __init__(self, talk: "Talk") -> None:
        self._talk = talk
        self._socket = KafkaSocket(talk.server.port, ANSWER_S)
        self._asked: list[tuple[str, type[Message], int]] = []

    def ask(self, what: str, request: Message, version: int) -> Any:
        """Sends a request, waits for its answer and notes it. Returns the answer; an empty one when none
        came, or the connection was closed."""
        self.begin(what, request, version)
        return self.end()

    def begin(self, what: str, request: Message, version: int) -> None:
        """Sends a request."""
        self._asked.append((f"{what}, v{version}", RESPONSES[request.ID], version))
        with suppress(ConnectionError):
            self._socket.send(request, version)

    def end(self) -> Any:
        """Waits for the answer to the first request that has none, and notes it. Returns it."""
        what, kind, version = self._asked.pop(0)
        try:
            _, answer = self._socket.receive_as(kind, version)
        except TimeoutError:
            self._talk.note(what, NEVER)
            return kind()
        except ConnectionError:
            self._talk.note(what, CLOSED)
            return kind()
        self._talk.note(what, self._talk.text.of(answer))
        return answer

    def waits(self) -> None:
        """Notes whether the first request has no answer yet."""
        what, _, _ = self._asked[0]
        readable, _, _ = select.select([self._socket.socket], [], [], WAITS_S)
        self._talk.note(f"{what}: waits", "no" if readable else "yes")

    def close(self) -> None:
        self._socket.close()


class Talk:
    """A script's conversation with one server."""

    def __init__(self, server: Server, script: str) -> None:
        self.server = server
        self.script = script
        self.text = AnswerText()
        self.notes: dict[str, str] = {}
        """What was heard, by what it is about, in the script's order."""
        self._lines: list[Line] = []

    def line(self) -> Line:
        """A new connection."""
        line = Line(self)
        self._lines.append(line)
        return line

    def group(self, name: str = "g") -> str:
        """The id of a group of this script's own."""
        return f"{self.script}.{name}"

    def note(self, what: str, heard: str) -> None:
        """Notes what was heard."""
        same = sum(each.rpartition(" #")[0] == what for each in self.notes)
        self.notes[f"{what} #{same + 1}"] = heard

    def topic(self, name: str, partitions: int = 4) -> str:
        """Creates a topic of this script's own, waits for its leaders, and returns its name."""
        topic = f"{self.script}.{name}"
        with KafkaSocket(self.server.port, ANSWER_S) as client:
            create_topic(client, topic, partitions)

            def is_led() -> bool:
                found = metadata(client, topic)
                return len(found) == partitions and all(each.leader_id >= 0 for each in found)

            until(is_led, f"{topic} has no leaders")
            request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
            self.text.name_topic(client.ask(request, MetadataResponse, 12).topics[0].topic_id, topic)
        return topic

    def close(self) -> None:
        """Ends its connections."""
        for line in self._lines:
            line.close()


def metadata(client: KafkaSocket, topic: str) -> list[Any]:
    """A topic's partitions."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
    return list(client.ask(request, MetadataResponse, 9).topics[0].partitions)


def await_groups(server: Server) -> None:
    """Waits until a server coordinates groups of any name, and has read all that it has of them."""

    def answers() -> bool:
        try:
            with KafkaSocket(server.port, ANSWER_S) as client:
                found = client.ask(FindCoordinatorRequest("g"), FindCoordinatorResponse, 3)
                asked = OffsetFetchRequest(
                    groups=[OffsetFetchRequestGroup(f"g{n}", topics=None) for n in range(NAMES)]
                )
                fetched = client.ask(asked, OffsetFetchResponse, 8)
        except OSError:
            return False
        return not found.error_code and not any(each.error_code for each in fetched.groups)

    until(answers, "the groups have no coordinator", 120)
