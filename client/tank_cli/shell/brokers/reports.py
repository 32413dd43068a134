"""The brokers' reports on themselves: their disks, and partitions that cannot be used.

The controllers don't know these facts.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_cli.shell.output import Json

if TYPE_CHECKING:
    from tank_client.model import BrokerReport
    from tank_protos.generated import control_pb2 as pb

PATIENCE_MS = 2_000
"""The longest wait for one broker; all are asked at the same time, so that dead brokers delay the command
little.
"""
AT_ONCE = 32
"""How many brokers are asked at the same time."""


@dataclass(slots=True, frozen=True)
class AskedBroker:
    """One broker: its report, or the reason why there is none."""

    broker_id: int
    report: "BrokerReport | None"
    why: str = ""

    def json(self) -> dict[str, Json]:
        """The report as JSON; null for unknown values."""
        report = self.report
        return {
            "broker_id": self.broker_id,
            "reached": report is not None,
            "data_bytes": report.data_bytes if report else None,
            "free_bytes": report.free_bytes if report else None,
            "disk_bytes": report.disk_bytes if report else None,
            "troubles": troubles_json(report) if report else None,
        }


def troubles_json(report: "BrokerReport") -> list[Json]:
    """The partitions that the broker can't use as it should."""
    return [
        {"topic": t.topic, "partition": t.partition, "trouble": t.trouble.value, "reason": t.reason}
        for t in report.troubles
    ]


def ask_brokers(found: "pb.OverviewAnswer") -> list[AskedBroker]:
    """Asks all brokers that the controllers count as alive; returns them by number. A failure of one broker
    raises nothing.
    """
    return asyncio.run(_ask_all(found))


async def _ask_all(found: "pb.OverviewAnswer") -> list[AskedBroker]:
    from tank_controller.leader.reports.report import address_of

    room = asyncio.Semaphore(AT_ONCE)
    alive = [load.broker for load in found.brokers if not load.broker.fenced_index]
    return await asyncio.gather(*(_ask(room, each.broker_id, address_of(each)) for each in alive))


async def _ask(room: asyncio.Semaphore, broker_id: int, address: str) -> AskedBroker:
    from tank_client import Client, errors
    from tank_client.settings import ClientSettings

    if not address:
        return AskedBroker(broker_id, None, "another broker has its address")
    settings = ClientSettings(connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    async with room:
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000), Client(address, settings=settings) as client:
                report = await client.admin.describe_broker()
        except (errors.TankError, OSError, TimeoutError):
            return AskedBroker(broker_id, None, f"{address} can't be asked from here")
    if report.broker_id != broker_id:
        return AskedBroker(broker_id, None, f"broker {report.broker_id} answers at {address}")
    return AskedBroker(broker_id, report)
