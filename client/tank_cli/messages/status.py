"""`tank status`: the broker's version, topics, disk and problems."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tank_cli.messages.iggy_eras import eras_text, iggy_eras
from tank_cli.messages.topic import total_bytes, total_messages
from tank_cli.shell.brokers.reports import troubles_json
from tank_cli.shell.figures import bytes_text, count_text, is_nearly_full, plural, seconds_text, time_text
from tank_cli.shell.output import Json, print_facts, print_gap, print_json, print_table, warn
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from tank_client.model import BrokerDescription, BrokerReport, Features, ServerStatus, TopicDescription
    from tank_client.sync import Client

OUR_FIRST_VERSION = 1000
SIZE_LIMITS = "_bytes"


@dataclass(slots=True, frozen=True)
class Overview:
    """The broker's answers; `round_trip_s`: the fastest of three Status requests; `report` None: the broker
    can't describe itself.
    """

    servers: str
    status: "ServerStatus | None"
    features: "Features"
    topics: "list[TopicDescription]"
    brokers: "list[BrokerDescription]"
    report: "BrokerReport | None"
    round_trip_s: float | None
    eras: dict[str, int] | None
    """Connections of Iggy clients, by era; None: the broker can't list its clients."""


@click.command()
@click.option("--limits", is_flag=True, help="Show the broker's features and limits, too.")
@shared_options
def status(session: CommandSession, limits: bool) -> None:
    """Show the broker's version, topics, disk and problems."""
    with session.client() as client:
        overview = ask(client, session.servers)
    if session.as_json:
        print_json(overview_json(overview))
        return
    print_facts(facts(overview))
    if len(overview.brokers) > 1:
        print_gap()
        rows = [[str(each.broker_id), str(each.address), each.rack or "-"] for each in overview.brokers]
        print_table([">Broker", "Address", "Rack"], rows)
    if overview.report is not None:
        print_troubles(overview.report)
    if limits:
        print_gap()
        versions = [
            (name, f"{low} to {high}" if low != high else str(low))
            for name, (low, high) in sorted(overview.features.features.items())
        ]
        print_table(["Feature", ">Version"], [list(row) for row in versions])
        print_gap()
        print_table(
            ["Limit", ">Value"], [[n, limit_text(n, v)] for n, v in sorted(overview.features.limits.items())]
        )


def ask(client: "Client", servers: str) -> Overview:
    """Collects the answers. What an older broker can't answer is left out, and is no error."""
    from tank_cli.shell.brokers.described import described
    from tank_client import errors

    features = client.admin.features()
    status, round_trip_s = None, None
    topics: list[TopicDescription] = []
    brokers: list[BrokerDescription] = []
    report: BrokerReport | None = None
    eras: dict[str, int] | None = None
    try:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            status = client.admin.status()
            times.append(time.perf_counter() - began)
        round_trip_s = min(times)
        topics = described(client, servers)
        if features.version >= OUR_FIRST_VERSION:
            brokers = client.admin.brokers()
            report = client.admin.describe_broker()
            eras = iggy_eras(client)
    except errors.FeatureMissing:
        pass
    return Overview(servers, status, features, topics, brokers, report, round_trip_s, eras)


def facts(overview: Overview) -> list[tuple[str, str]]:
    """The lines of the text output."""
    features, status, report = overview.features, overview.status, overview.report
    rows = [("servers", overview.servers), ("broker", kind(features.version))]
    if report is not None and report.software_version:
        rows.append(("version", report.software_version))
    if features.version >= OUR_FIRST_VERSION:
        rows += [("broker id", str(features.broker_id)), ("cluster", features.cluster_id)]
    if status is not None:
        up = report.uptime_ms / 1000 if report is not None else time.time() - status.start_time_s
        if status.start_time_s:
            rows.append(
                ("up", f"{seconds_text(max(up, 0))}, since {time_text(status.start_time_s * 1000)[:-5]}Z")
            )
        rows.append(("topics", count_text(status.topics)))
        rows.append(
            (
                "partitions",
                f"{count_text(status.partitions)}, {count_text(status.open_partitions)} of them open",
            )
        )
    messages, size = sums(overview.topics) if status is not None else (None, None)
    if messages is not None:
        rows.append(("messages", count_text(messages)))
    if size is not None:
        rows.append(("size", bytes_text(size)))
    if report is not None:
        rows += disk_facts(report, overview.eras or {})
    leaderless = without_leader(overview.topics)
    if leaderless:
        rows.append(("without leader", ", ".join(leaderless)))
    if overview.round_trip_s is not None:
        rows.append(("round trip", f"{overview.round_trip_s * 1000:.2f} ms"))
    return rows


def disk_facts(report: "BrokerReport", eras: dict[str, int]) -> list[tuple[str, str]]:
    """The lines about the broker's folder, disk, files and clients."""
    rows = [("data folder", f"{report.data_folder}, {bytes_text(report.data_bytes)}")]
    if report.free_bytes is not None and report.disk_bytes is not None:
        rows.append(("disk", f"{bytes_text(report.free_bytes)} free of {bytes_text(report.disk_bytes)}"))
    rows.append(("open files", f"{count_text(report.open_files)} of logs"))
    of_iggy = eras_text(eras)
    rows.append(("connections", count_text(report.connections) + (f"; {of_iggy}" if of_iggy else "")))
    return rows


def print_troubles(report: "BrokerReport") -> None:
    """Partitions that can't be used as they should, and folders that were set aside; nothing when all is
    well."""
    free_bytes, disk_bytes = report.free_bytes, report.disk_bytes
    if free_bytes is not None and disk_bytes is not None and is_nearly_full(free_bytes, disk_bytes):
        warn(
            f"the broker's disk has {bytes_text(free_bytes)} free of {bytes_text(disk_bytes)}, "
            "and a full one takes no messages: enlarge it, delete topics, or shorten their retention "
            "(`tank topic alter NAME --set log.retention.secs=1d`)"
        )
    if report.troubles:
        print_gap()
        print_table(
            ["Partition", "Trouble", "Reason"],
            [[f"{t.topic}/{t.partition}", t.trouble.value, t.reason] for t in report.troubles],
        )
        warn(
            f"{plural(len(report.troubles), 'partition')} can't be used as they should: look at the broker's "
            "disk and its log; `tank log verify` checks the folder of a stopped broker."
        )
    if report.stray_folders:
        print_gap()
        rows = [[stray.path, bytes_text(stray.size_bytes)] for stray in report.stray_folders]
        print_table(["Stray folder", ">Size"], rows)
        warn("Stray folders belong to no topic of this cluster and are never used: move or delete them.")


def eras_json(eras: dict[str, int] | None) -> Json:
    """Connections of Iggy clients by era; null: the broker can't say."""
    return None if eras is None else [{"era": era, "connections": count} for era, count in eras.items()]


def kind(version: int) -> str:
    """The kind of broker that has this version number."""
    if version >= OUR_FIRST_VERSION:
        return f"Tank Cluster (protocol version {version})"
    return f"the C++ broker (protocol version {version})" if version else "a broker of the old TANK document"


def sums(topics: "list[TopicDescription]") -> tuple[int | None, int | None]:
    """Messages and bytes over all topics; None where one isn't known."""
    messages = [total_messages(topic) for topic in topics]
    sizes = [total_bytes(topic) for topic in topics]
    return (
        None if None in messages else sum(count for count in messages if count is not None),
        None if None in sizes else sum(size for size in sizes if size is not None),
    )


def without_leader(topics: "list[TopicDescription]") -> list[str]:
    """Returns the partitions without a leader, as topic/partition. Brokers that give no leaders have no topic
    ids either."""
    return [f"{t.name}/{p.partition}" for t in topics if t.topic_id for p in t.partitions if p.leader is None]


def limit_text(name: str, value: int) -> str:
    """A limit as people read it, by the unit in its name."""
    return bytes_text(value) if name.endswith(SIZE_LIMITS) else count_text(value)


def overview_json(overview: Overview) -> dict[str, Json]:
    """The shape of `tank status --output json`; null where the broker can't say."""
    features, status, report = overview.features, overview.status, overview.report
    messages, size = sums(overview.topics)
    ours = features.version >= OUR_FIRST_VERSION
    return {
        "servers": overview.servers,
        "version": features.version,
        "cluster_id": features.cluster_id if ours else None,
        "broker_id": features.broker_id if ours else None,
        "start_time_s": status.start_time_s if status else None,
        "topics": status.topics if status else None,
        "partitions": status.partitions if status else None,
        "open_partitions": status.open_partitions if status else None,
        "messages": messages if status else None,
        "size_bytes": size if status else None,
        "software_version": report.software_version if report else None,
        "uptime_ms": report.uptime_ms if report else None,
        "data_folder": report.data_folder if report else None,
        "data_bytes": report.data_bytes if report else None,
        "free_bytes": report.free_bytes if report else None,
        "disk_bytes": report.disk_bytes if report else None,
        "open_files": report.open_files if report else None,
        "connections": report.connections if report else None,
        "iggy_eras": eras_json(overview.eras),
        "troubles": troubles_json(report) if report else None,
        "stray_folders": [
            {"path": stray.path, "size_bytes": stray.size_bytes} for stray in report.stray_folders
        ]
        if report
        else None,
        "without_leader": list(without_leader(overview.topics)),
        "brokers": [
            {
                "broker_id": each.broker_id,
                "host": each.address.host,
                "port": each.address.port,
                "rack": each.rack,
            }
            for each in overview.brokers
        ],
        "features": {name: list(versions) for name, versions in sorted(features.features.items())},
        "limits": dict(sorted(features.limits.items())),
        "round_trip_ms": None if overview.round_trip_s is None else round(overview.round_trip_s * 1000, 3),
    }
