"""Encodes a bundle's columns; pure."""

import struct

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
    try:
        encoded = encode(
            bundle.values,
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
    bundle.batch = as_batch(encoded)
    bundle.counted = len(bundle.values)
    bundle.values, bundle.keys, bundle.timestamps = [], None, []
