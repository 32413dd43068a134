"""`tank produce`: lines, JSON lines, messages or whole files into a topic."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from tank_cli.messages import produce_input
from tank_cli.messages.produce_input import InputMessage, InputSource
from tank_cli.messages.produce_send import Sent, send_all
from tank_cli.shell.brokers.positions import MAX_PARTITION, DurationType, SizeType
from tank_cli.shell.brokers.watch import BrokerWatch
from tank_cli.shell.complete import complete_topics
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import bytes_text, plural, seconds_text
from tank_cli.shell.output import Json, done, note, print_json
from tank_cli.shell.progress import progress
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from tank_client.settings import ProducerSettings
    from tank_client.sync import Client

STDIN = "-"
SLICES_A_SECOND = (
    20  # how often --rate sends in a second: smooth enough to watch, with time to sleep in between
)


@dataclass(slots=True, frozen=True)
class InputFormat:
    """How the input is read."""

    format: str
    key: bytes | None
    key_separator: str | None
    key_field: str | None
    timestamp_field: str | None
    headers: produce_input.Headers = ()
    """Of all messages, before those that a message has itself."""
    longest_key: int | None = produce_input.MAX_KEY_BYTES
    """None: keys of any length fit the topic."""

    def parser(self) -> produce_input.Parser:
        """One line as a record."""
        parse = self._parser()
        if not self.headers:
            return parse

        def with_headers(line: bytes) -> InputMessage:
            found = parse(line)
            return replace(found, headers=self.headers + found.headers)

        return with_headers

    def _parser(self) -> produce_input.Parser:
        if self.format == "lines":
            return produce_input.line_parser(self.key, self.key_separator)
        if self.format == "json":
            return produce_input.json_parser(self.key, self.key_field, self.timestamp_field)
        return produce_input.parse_message

    def check(self) -> None:
        """Options that don't go together are a usage error before anything is sent."""
        if self.key_separator == "":
            raise click.UsageError("--key-separator must not be empty.")
        if self.key_separator is not None and self.format != "lines":
            raise click.UsageError("--key-separator goes with --format lines; for JSON use --key-field.")
        if (self.key_field or self.timestamp_field) and self.format != "json":
            raise click.UsageError("--key-field and --timestamp-field go with --format json.")
        if self.key is not None and self.format == "messages":
            raise click.UsageError("--key doesn't go with --format messages: each message has its own.")
        if self.key is not None and (self.key_separator is not None or self.key_field is not None):
            raise click.UsageError(
                "--key gives all messages the same key: leave out --key-separator and --key-field."
            )

    def for_topic(self, *, stores_records: bool) -> "InputFormat":
        """The same for a topic of this stored format. Raises a usage error for a key that it can't hold."""
        if stores_records:
            return replace(self, longest_key=None)
        if len(self.key or b"") > produce_input.MAX_KEY_BYTES:
            raise click.UsageError(
                f"A key has {produce_input.MAX_KEY_BYTES} bytes at most, but for topics of Kafka's format."
            )
        return self


def produce_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of `tank produce`, in the order that `--help` shows."""
    for option in reversed(
        [
            click.option(
                "--message", "-m", "texts", multiple=True, metavar="TEXT", help="A message; may be repeated."
            ),
            click.option(
                "--format",
                "-f",
                "form",
                type=click.Choice(["lines", "json", "messages", "file"]),
                default="lines",
                show_default=True,
                help="lines: a value a line. json: a JSON object a line, sent as it stands. messages: as "
                "`consume --format json` prints them. file: each file is one message.",
            ),
            click.option("--key", "-k", metavar="KEY", help="The key of all messages."),
            click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help=HEADER_HELP),
            click.option("--key-separator", metavar="TEXT", help="The text between key and value in a line."),
            click.option("--key-field", metavar="NAME", help="The JSON field that is the key."),
            click.option(
                "--timestamp-field",
                metavar="NAME",
                help="The JSON field that is the time: milliseconds or ISO 8601.  [default: now]",
            ),
            click.option(
                "--partition",
                "-p",
                type=click.IntRange(0, MAX_PARTITION),
                metavar="N",
                help="The partition.  [default: by key, else spread]",
            ),
            click.option(
                "--rate",
                type=click.FloatRange(0, min_open=True),
                metavar="N",
                help="Messages a second.  [default: as fast as it goes]",
            ),
            click.option(
                "--compression",
                type=click.Choice(["auto", "snappy", "none"]),
                default="auto",
                show_default=True,
                help="auto: only bundles that shrink by it.",
            ),
            click.option("--acks", type=click.IntRange(0, 255), default=0, metavar="N", help=ACKS_HELP),
            click.option(
                "--batch-bytes", type=SizeType(), help="Send a bundle when it is this large.  [default: 64k]"
            ),
            click.option("--linger", type=DurationType(), help="... or this old.  [default: 5ms]"),
            click.option("--quiet", "-q", is_flag=True, help="Only errors on stderr."),
        ]
    ):
        function = option(function)
    return function


HEADER_HELP = "A header of all messages; may be repeated. For topics of Kafka's format."
ACKS_HELP = (
    "Replicas that must hold a message: 0 the topic's min.insync.replicas, 255 half of those in sync, "
    "n the leader and n more.  [default: 0]"
)


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(dir_okay=False, allow_dash=True))
@produce_options
@shared_options
def produce(
    session: CommandSession,
    topic: str,
    files: tuple[str, ...],
    texts: tuple[str, ...],
    form: str,
    key: str | None,
    headers: tuple[str, ...],
    key_separator: str | None,
    key_field: str | None,
    timestamp_field: str | None,
    partition: int | None,
    rate: float | None,
    compression: str,
    acks: int,
    batch_bytes: int | None,
    linger: int | None,
    quiet: bool,
) -> None:
    """Write messages to TOPIC, from FILEs or from stdin.

    \b
    echo hello | tank produce greetings
    tank produce greetings -m hello -m world
    tank produce flights flights.jsonl --format json --key-field carrier
    tail -F app.log | tank produce logs --key app1
    tank produce payments -m paid --header source=shop
    """
    try:
        sent_headers = tuple(produce_input.header_option(text) for text in headers)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    key_bytes = None if key is None else key.encode()
    reading = InputFormat(form, key_bytes, key_separator, key_field, timestamp_field, sent_headers)
    reading.check()
    if texts and files:
        raise click.UsageError("Give either --message or FILEs.")
    settings = producer_settings(compression, acks, batch_bytes, linger)
    with session.client() as client:
        reading = reading.for_topic(stores_records=require_topic(client, topic, partition))
        by_hand = not texts and (not files or STDIN in files) and sys.stdin.isatty()
        if by_hand and not quiet:
            note(f"Type messages for {topic}, {'a file' if form == 'file' else 'one a line'}; Ctrl-D ends.")
        runs = message_runs(texts, files, reading)
        with progress("Stored", quiet=quiet or by_hand) as shown, BrokerWatch(session.servers) as watch:
            sent = send_all(client, topic, paced(runs, rate), partition, settings, shown, watch)
        report(session, topic, partition, sent, shown.elapsed_s, quiet)


def producer_settings(
    compression: str, acks: int, batch_bytes: int | None, linger_ms: int | None
) -> "ProducerSettings":
    """The options as the client's settings."""
    from tank_client.settings import ProducerSettings

    defaults = ProducerSettings()
    batch = batch_bytes or defaults.batch_bytes
    return ProducerSettings(
        batch_bytes=batch,
        buffer_bytes=max(defaults.buffer_bytes, 4 * batch),
        linger_ms=defaults.linger_ms if linger_ms is None else linger_ms,
        required_acks=acks,
        compression={"auto": None, "snappy": True, "none": False}[compression],
    )


def require_topic(client: "Client", topic: str, partition: int | None) -> bool:
    """Fails before input is read, when topic or partition isn't there. With a broker that can't list its
    topics, the first message finds out. Returns whether the topic stores record batches.
    """
    from tank_client import errors
    from tank_client.producing.topic_format import stores_records

    try:
        (found,) = client.admin.describe_topics([topic])
    except errors.FeatureMissing:
        return False
    if partition is not None and partition not in {each.partition for each in found.partitions}:
        raise errors.UnknownPartition(topic, partition)
    return stores_records(found)


def message_runs(
    texts: tuple[str, ...], files: tuple[str, ...], reading: InputFormat
) -> Iterator[list[InputMessage]]:
    """Yields all messages to send, in runs of those that have arrived."""
    if texts:
        parse = reading.parser()
        try:
            yield [parse(text.encode("utf-8", "surrogateescape")) for text in texts]
        except ValueError as error:
            raise CliError(f"A message can't be sent: {error}.", ExitCode.USAGE) from error
        return
    for name in files or (STDIN,):
        if name == STDIN:
            yield from source_runs(cast(InputSource, sys.stdin.buffer), "stdin", reading)
        else:
            with open_input(name) as source:
                yield from source_runs(cast(InputSource, source), name, reading)


def open_input(name: str) -> BinaryIO:
    """Opens a file to read. Raises CliError when it can't."""
    try:
        return open(name, "rb")
    except OSError as error:
        code = ExitCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ExitCode.FAILED
        raise CliError(f"{name} can't be read: {error.strerror}.", code) from error


def source_runs(source: InputSource, name: str, reading: InputFormat) -> Iterator[list[InputMessage]]:
    """One input's records."""
    if reading.format == "file":
        yield [replace(produce_input.file_record(source, name, reading.key), headers=reading.headers)]
    else:
        yield from produce_input.parsed_runs(source, name, reading.parser(), reading.longest_key)


def paced(runs: Iterator[list[InputMessage]], rate: float | None) -> Iterator[list[InputMessage]]:
    """The same runs, delayed so that at most `rate` records come in a second."""
    if rate is None:
        yield from runs
        return
    portion = max(1, int(rate / SLICES_A_SECOND))
    due = time.monotonic()
    for run in runs:
        for start in range(0, len(run), portion):
            part = run[start : start + portion]
            time.sleep(max(0.0, due - time.monotonic()))
            yield part
            due = max(due, time.monotonic() - 1.0) + len(part) / rate


def report(
    session: CommandSession, topic: str, partition: int | None, sent: Sent, seconds: float, quiet: bool
) -> None:
    """Prints the closing line. It gives message numbers only for a single partition: across several they mean
    nothing.
    """
    numbers: dict[str, Json] = {}
    if partition is not None and sent.first is not None:
        numbers = {"first": sent.first, "last": sent.last}
    if session.as_json:
        body: dict[str, Json] = {
            "topic": topic,
            "partition": partition,
            "messages": sent.messages,
            "bytes": sent.size_bytes,
            "seconds": round(seconds, 6),
            "first": None,
            "last": None,
        }
        print_json({**body, **numbers})
    elif not quiet:
        places = f", numbers {sent.first} to {sent.last}" if numbers else ""
        done(
            f"{plural(sent.messages, 'message')} stored in {topic}{places} "
            f"({bytes_text(sent.size_bytes)} in {seconds_text(seconds)})."
        )
