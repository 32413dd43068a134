"""All bounds of Kafka's stored formats, each with its reason. Sizes are bytes."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_BATCH_BYTES: Final = MIB + 12
"""`max.message.bytes` of a topic that sets none. Kafka has the same default: 1 MiB and a batch's first two
fields."""

MAX_UNPACKED_BYTES: Final = 64 * MIB
"""The most that the records of one batch may unpack to. A message set of TANK has the same limit, so that a
reader needs no more memory for a compressed batch than for a plain answer."""

UNPACKED_RATIO: Final = 1032
UNPACKED_FLOOR_BYTES: Final = 8 * MIB
"""A batch may unpack to 1032 times its size, or to 8 MiB where that is more. The ratio is the greatest that
gzip reaches; lz4 has 255 and snappy 22. Zstandard exceeds it for records that are all alike, and the 8 MiB
are for these: producers rarely send more than 1 MiB of records in a batch."""

ZSTD_WINDOW_BYTES: Final = 128 * MIB
"""The largest window of a zstd frame: that of level 22, the highest that Kafka's clients offer. The decoder
reserves it, but touches no more of it than the frame unpacks to."""

MAX_FRAMES: Final = 64
"""The most members of gzip, or frames of lz4 or zstd, in one batch; clients write one. An empty one has some
ten bytes, and each of them costs a copy of all bytes behind it (gzip) or 20 µs for a window (zstd): a batch
of 1 MiB would take seconds."""

MAX_SET_MESSAGES: Final = 65_536
"""The most messages of a message set that is converted to a record batch, which takes 5 µs and 460 bytes for
each. The smallest has 26 bytes, so that 1,000,000 bytes, the most that clients of its age pack together
unless told otherwise, hold 38,461."""

MAX_SET_BYTES: Final = 16 * MIB
"""The most that the wrappers of a message set may unpack to: it is compressed anew. Clients of its age pack 1
MiB together."""

MAX_CONVERTED_RECORDS: Final = 1_048_576
"""The most records of one batch that is converted to another format. The smallest record has seven bytes, so
that a batch of a few KiB may hold millions, and conversion has some objects in memory for each."""
