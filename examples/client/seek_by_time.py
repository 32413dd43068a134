"""Reads the messages of the last hour, then goes back to a time in a consumer that is open already.

    python -m examples.client.seek_by_time

The producer gives each message its time. The broker finds the first batch that holds a message at or after a
time, so nothing older is read.
"""

from datetime import UTC, datetime, timedelta

from examples.client.start import command_line, need_topic
from tank_client import AtTime
from tank_client.sync import Client, Consumer


def read_last_hour(servers: str) -> None:
    """Writes three measurements; prints those of the last hour, then those of the last ten minutes."""
    now = datetime.now(UTC)
    with Client(servers) as client:
        need_topic(client, "dated-measurements", partitions=1)
        with client.producer() as producer:
            for minutes_ago in (90, 30, 5):
                time_ms = int((now - timedelta(minutes=minutes_ago)).timestamp() * 1000)
                value = f"measured {minutes_ago} minutes ago".encode()
                producer.send("dated-measurements", value, partition=0, timestamp_ms=time_ms)
                producer.flush()  # a batch of its own for each

        last_hour = AtTime(now - timedelta(hours=1))
        with client.consumer("dated-measurements", start=last_hour, stop_at_end=True) as consumer:
            show("since an hour ago", consumer)

            ten_minutes_ago_ms = int((now - timedelta(minutes=10)).timestamp() * 1000)
            found = client.admin.find_by_time("dated-measurements", {0: ten_minutes_ago_ms})[0]
            consumer.seek("dated-measurements", 0, found.number)
            show("since ten minutes ago", consumer)


def show(title: str, consumer: Consumer) -> None:
    """Prints all messages up to the end that the topic had when the consumer began."""
    for message in consumer.messages():
        print(f"{title}: {(message.value or b'').decode()}")


if __name__ == "__main__":
    read_last_hour(command_line(__doc__).parse_args().servers)
