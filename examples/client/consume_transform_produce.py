"""Reads orders, makes an invoice of each, and writes it into another topic.

    python -m examples.client.consume_transform_produce

First the invoices are stored, then their orders count as read. A program that dies between the two steps
writes some invoices a second time when it runs again; it never leaves one out.
"""

from examples.client.start import command_line, need_topic
from tank_client.sync import Client


def invoices_of_orders(servers: str) -> int:
    """Handles the orders that are there; returns their number."""
    handled = 0
    with Client(servers) as client, client.producer() as producer:
        need_topic(client, "orders", partitions=4)
        need_topic(client, "invoices", partitions=2)
        consumer = client.consumer("orders", start="committed", group="invoices", stop_at_end=True)
        with consumer:
            for batch in consumer:
                invoices = [b"invoice for " + value for value in batch.values if value is not None]
                producer.send_many("invoices", invoices, keys=batch.keys)
                producer.flush()  # the invoices are stored ...
                consumer.commit()  # ... before their orders count as read
                handled += len(invoices)
    return handled


if __name__ == "__main__":
    print(f"{invoices_of_orders(command_line(__doc__).parse_args().servers)} orders became invoices")
