"""The payloads that the compiler writes for a message's corpus, each with its version."""

from collections.abc import Iterator

from tank_compiler.schema.schema import Message
from tank_compiler.tools import corpus


def corpus_seeds(message: Message) -> Iterator[tuple[bytes, int]]:
    """(payload, version) pairs; the version is for `decode`, 0 where the payload states it."""
    for name, payload in corpus.seeds(message):
        yield payload, 0 if message.version_field is not None else version_of(message, name)


def version_of(message: Message, seed_name: str) -> int:
    """The version that a seed's name states; the message's only one where it states none."""
    return int(seed_name.rsplit("-v", 1)[1]) if "-v" in seed_name else message.versions.low
