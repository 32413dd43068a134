"""A broker of ours, set up as the real Kafka beside it."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.processes.broker_process import BrokerProcess

MIN_SESSION_MS: Final = 500
"""The shortest session that both take: scripts wait for some to end."""


class OurServer:
    """Runs as long as its `with` block."""

    def __init__(self, data: Path) -> None:
        self._broker = BrokerProcess(data, "--group-min-session-ms", str(MIN_SESSION_MS))

    @property
    def port(self) -> int:
        """For Kafka's clients."""
        return self._broker.kafka_port

    def restart(self) -> None:
        """An orderly stop, then a start."""
        self._broker.restart()

    def __enter__(self) -> Self:
        self._broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broker.kill()
