"""Creates, describes, changes and deletes a topic, and shows how far a group is behind.

    python -m examples.client.admin

A topic and its settings can be changed while programs use it.
"""

from examples.client.start import command_line
from tank_client.sync import Client


def manage(servers: str) -> None:
    """A topic from its creation to its end."""
    with Client(servers) as client:
        admin = client.admin
        admin.create_topic("events", partitions=2, settings={"log.retention.secs": "7d"})
        [events] = admin.describe_topics(["events"])
        chosen = {setting.key: setting.value for setting in events.settings if not setting.is_default}
        print(f"events: {len(events.partitions)} partitions, {chosen}")

        admin.alter_topic("events", partitions=3, settings={"log.retention.secs": None})
        print(f"events: {admin.partition_counts(['events'])['events']} partitions, kept for ever")

        with client.producer() as producer:
            producer.send_many("events", [b"one", b"two", b"three"], partition=0)
        admin.commit_positions("readers", {("events", 0): 3})  # the next number to read
        print(f"readers: {lag(client, 'readers', 'events')} messages behind")

        admin.delete_topic("events")


def lag(client: Client, group: str, topic: str) -> int:
    """How many messages the group has not read, in the partitions that it has committed."""
    ends = client.admin.ends(topic)
    positions = client.admin.fetch_positions(group, [topic])
    return sum(
        ends[partition].high_water_mark + 1 - position.number
        for (_, partition), position in positions.items()
    )


if __name__ == "__main__":
    manage(command_line(__doc__).parse_args().servers)
