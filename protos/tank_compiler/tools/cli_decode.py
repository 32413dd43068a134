"""`tank-protos decode`: reads captured bytes from files, and writes them as JSON."""

import difflib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from tank_compiler.schema import definition_files
from tank_compiler.schema.schema import Message, Protocol
from tank_compiler.tools.decode_json import WHOLE, Cut, readable
from tank_compiler.tools.decode_kafka import KafkaProtocol
from tank_compiler.tools.decode_stream import Document, Exchange, Side, WireProtocol, documents, told_alone
from tank_compiler.tools.decode_tank import TankProtocol
from tank_compiler.tools.hex_input import HexError, HexText, is_text

_file_option = click.Path(exists=True, dir_okay=False, path_type=Path)

_LONGEST_NAME = 255
"""The longest name of a file: a longer INPUT is hexadecimal digits."""

_HELP = """Decode bytes from a wire: one JSON document for each frame.

INPUT is hexadecimal digits (spaces, 0x and commas are fine) or the name of a file; without it, standard
input is read. Text, also in a file, can be a dump: of xxd or hexdump -C, or with both directions of socat -x
or tcpdump -nn -x (of one connection without losses); a line may begin with > (the client sent it) or < (the
broker). Any other file is taken for the bytes of one TCP connection: what one side sent (--client, --broker,
--from), or the frames of both in one file. Capture files (pcap) are not read: tcpflow -r FILE makes of them
one file for each direction.

\b
Examples:
  tank-protos decode 0300000000
  tank-protos decode --client from-client.bin --broker from-broker.bin
  xxd capture.bin | tank-protos decode --from broker --pretty
  tcpdump -nn -x -r capture.pcap tcp port 11011 | tank-protos decode
  tank-protos decode --message StatusRequest 07000000
  tank-protos decode --protocol kafka --client c.bin --broker b.bin
  tank-protos decode --protocol kafka --message FetchRequest --version 12 HEX

A document has the offset of the frame and its length in bytes, its sender, the message, and those of its
fields (see docs/protocol) that are on the wire. Bundles are decoded to their messages. An answer names its
request, if that was seen; the answer to a produce, which has result bytes alone, gets topics and partitions
from the request. Bytes are shown as text if they are text, else in base64; long values are cut (--full shows
them whole).

Kafka's messages are those in docs/protocol/kafka; --definitions DIR reads others, JSON files like those of
the Kafka project. An answer of Kafka can't be read without its request, which has the api key and version:
give both directions, or --api-key and --api-version. Record batches are not decoded.

A frame that can't be read has an "error" with the reason, the offset in the stream, and the field. Reading
goes on with the next frame; if none is found, bytes are skipped until two frames follow each other. The exit
code is 1 when there was an error.
"""


@dataclass(frozen=True, slots=True)
class _Sent:
    """Captured bytes, and their sender; None: it is unknown."""

    side: Side | None
    data: bytes


@click.command(help=_HELP, short_help="Decode bytes from a wire to JSON.")
@click.argument("input", nargs=-1)
@click.option(
    "--protocol", "name", type=click.Choice(["tank", "kafka"]), default="tank", help="Default: tank."
)
@click.option("--from", "sender", type=click.Choice([side.value for side in Side]), help="Who sent INPUT.")
@click.option("--client", type=_file_option, help="The bytes that the client sent.")
@click.option("--broker", type=_file_option, help="The bytes that the broker sent.")
@click.option("--definitions", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="The folder of the protocol's definitions, if other ones than ours.")  # fmt: skip
@click.option("--message", "alone", help="INPUT is one message of this name, without a frame or header.")
@click.option("--version", type=int, help="The version of --message, where the message does not state it.")
@click.option("--api-key", type=int, help="Kafka: what is answered, where the requests are not there.")
@click.option("--api-version", type=int, help="The version that --api-key was asked in.")
@click.option("--pretty", is_flag=True, help="Indent; the default when a terminal reads it.")
@click.option("--full", is_flag=True, help="Cut nothing.")
def decode(
    input: tuple[str, ...],
    name: str,
    sender: str | None,
    client: Path | None,
    broker: Path | None,
    folder: Path | None,
    alone: str | None,
    version: int | None,
    api_key: int | None,
    api_version: int | None,
    pretty: bool,
    full: bool,
) -> None:
    """Its help text is _HELP."""
    if (api_key is None) != (api_version is None):
        raise click.ClickException("--api-key and --api-version belong together; say both")
    answers = (api_key, api_version) if api_key is not None and api_version is not None else None
    protocol, definitions = _protocol(name, folder, answers)
    sent = [
        _Sent(side, _file_bytes(path))
        for side, path in ((Side.CLIENT, client), (Side.BROKER, broker))
        if path
    ]
    if input or not sent:
        sent += _input(input, Side(sender) if sender else None)
    told = (
        _messages(sent, protocol, _named(definitions, alone), version) if alone else _frames(sent, protocol)
    )
    failed = 0
    cut, indent = WHOLE if full else Cut(), 2 if pretty or sys.stdout.isatty() else None
    for document in told:
        failed += "error" in document
        shown = {name: readable(value, WHOLE if name == "error" else cut) for name, value in document.items()}
        click.echo(json.dumps(shown, ensure_ascii=False, indent=indent))
    if failed:
        sys.exit(1)


def _input(words: tuple[str, ...], side: Side | None) -> list[_Sent]:
    """Reads the input: a file, hexadecimal digits, or without words standard input."""
    if not words:
        return _from_bytes(sys.stdin.buffer.read(), "standard input", side)
    if len(words) == 1 and len(words[0]) <= _LONGEST_NAME and Path(words[0]).is_file():
        return _from_bytes(Path(words[0]).read_bytes(), words[0], side)
    return _from_text(" ".join(words), "INPUT (which is no file's name, either)", side)


def _file_bytes(path: Path) -> bytes:
    return b"".join(part.data for part in _from_bytes(path.read_bytes(), str(path), None))


def _from_bytes(data: bytes, name: str, side: Side | None) -> list[_Sent]:
    return _from_text(data.decode("ascii"), name, side) if is_text(data) else [_Sent(side, data)]


def _from_text(text: str, name: str, side: Side | None) -> list[_Sent]:
    try:
        found = HexText(text)
    except HexError as error:
        raise click.ClickException(f"{name}: {error}") from None
    parts = [(side, found.plain), (Side.CLIENT, found.client), (Side.BROKER, found.broker)]
    return [_Sent(side, bytes(data)) for side, data in parts if data]


def _protocol(
    name: str, folder: Path | None, answers: tuple[int, int] | None
) -> tuple[WireProtocol, Protocol]:
    definitions = definition_files.load(folder or definition_files.shipped(name))
    if name == "tank":
        return TankProtocol(definitions), definitions
    try:
        return KafkaProtocol(definitions, answers), definitions
    except ValueError as error:
        raise click.ClickException(f"{folder}: {error}") from None


def _frames(sent: Iterable[_Sent], protocol: WireProtocol) -> Iterator[Document]:
    exchange = Exchange()
    for part in sent:
        yield from documents(protocol, memoryview(part.data), part.side, exchange)


def _messages(
    sent: Iterable[_Sent], protocol: WireProtocol, message: Message, version: int | None
) -> Iterator[Document]:
    if version is None and message.version_field is None and message.versions.low != message.versions.high:
        what = f"{message.root.name} has the versions {message.versions}; say which one it is: --version N"
        raise click.ClickException(what)
    number = message.versions.low if version is None else version
    for part in sent:
        yield told_alone(protocol.alone(message, memoryview(part.data), number), len(part.data))


def _named(definitions: Protocol, name: str) -> Message:
    for message in definitions.messages:
        if message.root.name == name:
            return message
    near = difflib.get_close_matches(name, [message.root.name for message in definitions.messages], 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise click.ClickException(f"there is no message {name} among the definitions{hint}")
