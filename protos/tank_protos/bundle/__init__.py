"""TANK's bundles, in which messages are sent and stored. Import the codec from this package.

    bundle = encode([b"alpha", b"beta"], timestamps=1_700_000_000_000) [message.value for message in
decode(bundle, base=1)]      # [b"alpha", b"beta"]

A *bundle* is the bytes from its flags on; a *batch* is the bundle with its length before it, as it lies in
produce requests and segments; a *chunk* is batches back to back, as a consume answer brings it. The format is
described in `docs/protocol/bundle.md`. Arrow columns: `tank_protos.bundle.arrow`, which needs pyarrow and
numpy. Malformed bytes raise `InvalidBundle`; values that cannot be encoded raise `OutOfRange`.

- `header`: flags, counts and times; `encoding`, `decoding`: messages to bundles and back
- `kernel`: message sets, the inner loop of both
- `cut`: how many messages fill one bundle
- `arrow`: bundles to and from Arrow columns
"""

from tank_protos.bundle.decoding import (
    Columns,
    DamagedPart,
    Message,
    SoundPart,
    decode,
    decode_columns,
    iter_columns,
    join_columns,
    split_damaged,
)
from tank_protos.bundle.encoding import encode, encode_sparse, make_sparse
from tank_protos.bundle.header import (
    MAX_KEY_BYTES,
    MAX_MESSAGE_SET_BYTES,
    MAX_SEQUENCE_NUMBER,
    BundleHeader,
    Codec,
    as_batch,
    bundles,
    first_timestamp_ms,
    max_timestamp_ms,
    read_header,
    validate,
)

__all__ = [
    "MAX_KEY_BYTES",
    "MAX_MESSAGE_SET_BYTES",
    "MAX_SEQUENCE_NUMBER",
    "BundleHeader",
    "Codec",
    "Columns",
    "DamagedPart",
    "Message",
    "SoundPart",
    "as_batch",
    "bundles",
    "decode",
    "decode_columns",
    "encode",
    "encode_sparse",
    "first_timestamp_ms",
    "iter_columns",
    "join_columns",
    "make_sparse",
    "max_timestamp_ms",
    "read_header",
    "split_damaged",
    "validate",
]
