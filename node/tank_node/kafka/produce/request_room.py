"""What the batches of one Produce request may cost together, so that one client's request of a few KiB
doesn't keep the others waiting, or take all memory. Pure."""

from typing import Final

from tank_node.limits import TRANSCODED_RECORDS
from tank_protos.kafka import message_set, record_batch
from tank_protos.kafka.codecs import most_unpacked
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, too_large
from tank_protos.kafka.limits import MAX_SET_BYTES, MAX_SET_MESSAGES, MAX_UNPACKED_BYTES
from tank_protos.kafka.message_set import OldMessages
from tank_protos.kafka.record_batch import RecordBatchHeader
from tank_protos.wire.buffer import Buffer

_ADVICE: Final = "the batches before it in the request have left too little room: send it in another one"


class RequestIsFull(Exception):
    """The batch alone might be taken, but those before it in its request have left too little room."""


class RequestRoom:
    """The room for the batches of one request: bytes that they unpack to, and messages that are converted one
    by one. A batch that needs more than all of it is too large; one that needs more than is left should be
    sent again."""

    __slots__ = ("_bytes", "_is_alone", "_is_whole", "_records", "_set_bytes", "_set_messages")

    def __init__(self) -> None:
        self._bytes = MAX_UNPACKED_BYTES
        self._records = TRANSCODED_RECORDS
        self._set_bytes = MAX_SET_BYTES
        self._set_messages = MAX_SET_MESSAGES
        self._is_whole = self._is_alone = True
        """Whether no batch has taken any room; and whether none had when the present one began."""

    @property
    def unpacked_bytes(self) -> int:
        """The bytes that the request has unpacked so far, also in vain."""
        return MAX_UNPACKED_BYTES - self._bytes + MAX_SET_BYTES - self._set_bytes

    def begin(self) -> None:
        """Begins with the next batch."""
        self._is_alone = self._is_whole

    def payload_of(self, batch: memoryview, header: RecordBatchHeader) -> bytes:
        """Returns the records of a compressed batch, uncompressed. Raises InvalidRecords, RequestIsFull."""
        try:
            payload = record_batch.payload_of(batch, header, max_bytes=self._bytes)
        except InvalidRecords as error:
            # What was unpacked in vain has cost as much.
            raise self._refused(error, most_unpacked(len(batch), self._bytes)) from None
        self._bytes -= len(payload)
        self._is_whole = False
        return payload

    def convert(self, records: int) -> None:
        """Takes the room for a batch whose records are converted. Raises InvalidRecords, RequestIsFull."""
        if records > self._records:
            raise self._refused(
                too_large(f"a batch of {records} records, which are too many to be converted"), 0
            )
        self._records -= records
        self._is_whole = False

    def messages_of(self, given: Buffer) -> OldMessages:
        """Returns the messages of a message set. Raises InvalidRecords, RequestIsFull."""
        try:
            found = message_set.decode(given, max_bytes=self._set_bytes, max_messages=self._set_messages)
        except InvalidRecords as error:
            self._set_messages -= min((error.index or 0) + 1, self._set_messages)
            unpacked = most_unpacked(len(given), self._set_bytes)
            self._set_bytes -= unpacked
            raise self._refused(error, 0) from None
        self._set_messages -= len(found.messages)
        self._set_bytes -= found.unpacked_bytes
        self._is_whole = False
        return found

    def _refused(self, error: InvalidRecords, unpacked: int) -> Exception:
        """The exception for a batch that failed with this error, after it took room for these bytes."""
        self._is_whole = False
        self._bytes -= unpacked
        if error.fault is RecordsFault.TOO_LARGE and not self._is_alone:
            return RequestIsFull(_ADVICE)
        return error
