"""`tank cluster` commands, started, and what is seen of them."""

from typing import Any

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tests.support.processes.cluster import LocalCluster
from tests.support.waiting import until


def seen(cluster: LocalCluster, broker_id: int) -> dict[str, Any]:
    """A broker, as `tank cluster status` shows it."""
    found: dict[str, Any] = next(
        each for each in cluster.look("status")["brokers"] if each["broker_id"] == broker_id
    )
    return found


def start(cluster: LocalCluster, broker_id: int) -> None:
    """Starts this broker alone, and waits until it counts."""
    folder = cluster_folder.load_existing(cluster.data)
    processes.start(folder, next(each for each in folder.brokers if each.number == broker_id))
    until(lambda: not seen(cluster, broker_id)["fenced"], f"broker {broker_id} stays fenced", 60)
