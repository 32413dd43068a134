"""How each of these programs begins: the servers from the command line, and a topic that is there."""

import argparse
from contextlib import suppress

from tank_client import TopicExists
from tank_client.sync import Client


def command_line(description: str | None) -> argparse.ArgumentParser:
    """A command line with `--servers`; a program may add options of its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", default="127.0.0.1:11011", help="HOST:PORT, several with commas")
    return parser


def need_topic(client: Client, name: str, partitions: int) -> None:
    """Creates the topic where it is missing."""
    with suppress(TopicExists):
        client.admin.create_topic(name, partitions)
