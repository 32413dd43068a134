"""Encodes a bundle's columns; pure."""

import struct
from typing import cast

from tank_client import errors
from tank_client.producing.partition_queue import PendingBundle
from tank_protos.bundle import Codec, as_batch, encode
from tank_protos.wire.errors import OutOfRange

_CODECS = {None: None, True: Codec.SNAPPY, False: Codec.NONE}


def encode_bundle(bundle: PendingBundle, compression: bool | None) -> None:
    """Encodes the bundle's columns into `bundle.batch`, unless that was done. `compression`: as in
    ProducerSettings. Raises InvalidArgument.
    """
    if bundle.batch is not None:
        return
    stamps = bundle.timestamps
    first = stamps[0]
    uniform = stamps.count(first) == len(stamps)
    if bundle.as_records:
        _encode_records(bundle, first if uniform else stamps, compression)
        return
    try:
        encoded = encode(
            cast(list[bytes], bundle.values),  # a topic of bundles takes no null
            timestamps=first if uniform else stamps,
            keys=bundle.keys,
            codec=_CODECS[compression],
            topic=bundle.topic,
        )
    except (OutOfRange, TypeError, ValueError, struct.error) as error:
        # `send` has checked the messages; a value that it missed must fail its bundle, not stop the engine.
        raise errors.InvalidArgument(
            f"a bundle for {bundle.topic}/{bundle.partition} cannot be encoded: {error}"
        ) from None
    bundle.max_timestamp_ms = first if uniform else max(stamps)
    _finish(bundle, as_batch(encoded))


def _encode_records(bundle: PendingBundle, stamps: list[int] | int, compression: bool | None) -> None:
    from tank_protos.kafka import produced_batch
    from tank_protos.kafka.errors import InvalidRecords

    try:
        encoded = produced_batch.encode(
            bundle.values,
            timestamps=stamps,
            keys=bundle.keys,
            headers=bundle.headers,
            compression=compression,
        )
    except (InvalidRecords, OutOfRange, TypeError, ValueError, struct.error) as error:
        raise errors.InvalidArgument(
            f"a record batch for {bundle.topic}/{bundle.partition} cannot be encoded: {error}"
        ) from None
    _finish(bundle, encoded)


def _finish(bundle: PendingBundle, batch: bytes) -> None:
    bundle.batch = batch
    bundle.counted = len(bundle.values)
    bundle.values, bundle.keys, bundle.timestamps, bundle.headers = [], None, [], {}
