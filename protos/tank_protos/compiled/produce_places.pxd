# What `produce_run` and `kafka_run` keep of a batch, and the record that they make of it.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef struct Place:
    # Of the batch in its buffer.
    Py_ssize_t offset
    uint32_t length
    uint32_t messages
    # The first message's; 0: the bundle is compressed.
    uint64_t timestamp_ms
    uint32_t request_id

# What `kafka_run` keeps of a record batch.
cdef struct RecordBatchPlace:
    # Of the batch in its buffer.
    Py_ssize_t offset
    uint32_t length
    uint32_t messages
    uint64_t timestamp_ms
    # Of the bytes that the batch's own checksum covers.
    uint32_t crc
    # The producer's, of the first message.
    uint32_t sequence
    # As the client sent it.
    uint32_t correlation_id

# tank_protos.index_record, field by field: no gaps, so it is copied as it lies in memory.
cdef struct Record:
    uint64_t first
    uint32_t span
    uint32_t position
    uint32_t length
    uint32_t crc32c
    uint64_t append_ms
    uint64_t max_timestamp_ms
    uint64_t producer_id
    uint32_t producer_sequence
    uint32_t leader_epoch
    uint16_t producer_epoch
    uint8_t format
    uint8_t flags
    uint32_t messages
