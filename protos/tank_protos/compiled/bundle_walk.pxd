# How bundles lie in memory (docs/protocol/bundle.md), for the twins: inline C over pointers, without Python objects.
#
# Every function says by its result whether the bytes are right, and reads nothing at or behind `end`. None says what is
# wrong: a twin that meets bad bytes calls the plain function, which finds it again and raises its error.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    KEY = 1
    SAME_TIMESTAMP = 2
    NEXT_NUMBER = 4
    LARGEST_FLAGS = 7
    CODEC_MASK = 0x03
    COUNT_SHIFT = 2
    COUNT_MASK = 0x0F
    SPARSE = 0x40
    RESERVED = 0x80
    # Flags, timestamp and length of a first message without key and content; flags and length of a later one.
    FIRST_MESSAGE_BYTES = 10
    MESSAGE_BYTES = 2
    # A snappy element of 3 bytes gives 64 at best.
    SNAPPY_BEST = 22
    # Of an element's first byte: 0 where its bytes follow.
    SNAPPY_KIND = 0x03
    # What one compressed message set may unpack to.
    MAX_MESSAGE_SET_BYTES = 64 * 1024 * 1024

cdef struct Header:
    uint32_t codec
    uint32_t messages
    bint sparse
    # 0 and 0 in a dense bundle.
    uint64_t first
    uint64_t last
    # Where the message set begins.
    size_t body_offset

cdef struct Message:
    uint32_t flags
    # When the flags have no SAME_TIMESTAMP.
    uint64_t timestamp
    const uint8_t *key
    # 0: none.
    uint32_t key_bytes
    # Read in sparse bundles, where the message has one.
    uint32_t delta
    const uint8_t *value
    size_t value_bytes

# A message set: where it lies, what its header says, and what was found in it.
cdef struct Found:
    const uint8_t *data
    size_t start
    size_t end
    bint sparse
    # Of a sparse one: how many messages its header says, and the number of the last.
    size_t announced
    uint64_t last
    size_t messages
    size_t keyed
    size_t stamped


cdef inline bint read_varint(const uint8_t *data, size_t end, size_t *at, uint32_t *value) noexcept nogil:
    """The varint at `at`, which moves behind it; False: cut, over five bytes, or above 2^32 - 1."""
    cdef uint64_t found = 0
    cdef uint32_t shift = 0
    cdef uint8_t byte
    while at[0] < end:
        byte = data[at[0]]
        at[0] += 1
        found |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <uint32_t>found
            return found <= 0xFFFFFFFFu
        shift += 7
        if shift > 28:
            return False
    return False


cdef inline size_t varint_bytes(uint32_t value) noexcept nogil:
    """How many bytes the varint of `value` has."""
    return 1 + (value > 0x7F) + (value > 0x3FFF) + (value > 0x1FFFFF) + (value > 0xFFFFFFF)


cdef inline uint8_t *write_varint(uint8_t *to, uint32_t value) noexcept nogil:
    """The varint of `value`; returns where it ends."""
    while value > 0x7F:
        to[0] = value & 0x7F | 0x80
        to += 1
        value >>= 7
    to[0] = value
    return to + 1


cdef inline uint64_t read_u64(const uint8_t *data) noexcept nogil:
    """Little-endian, as every machine is that this is built for."""
    cdef uint64_t value
    memcpy(&value, data, 8)
    return value


cdef inline bint read_bundle_header(const uint8_t *data, size_t offset, size_t end, Header *header) noexcept nogil:
    """The header of the bundle from `offset` to `end`, judged as `tank_protos.bundle.read_header` does."""
    cdef uint32_t flags, span, size
    cdef size_t at
    if offset >= end:
        return False
    flags = data[offset]
    offset += 1
    if flags & RESERVED or flags & CODEC_MASK > 1:
        return False
    header.codec = flags & CODEC_MASK
    header.messages = flags >> COUNT_SHIFT & COUNT_MASK
    if not header.messages and (not read_varint(data, end, &offset, &header.messages) or not header.messages):
        return False
    header.sparse = flags & SPARSE != 0
    header.first = header.last = 0
    if header.sparse:
        if end - offset < 8:
            return False
        header.first = header.last = read_u64(data + offset)
        offset += 8
        # 2^63 - 2 is the largest number: the sum below cannot overflow.
        if header.first < 1 or header.first > 0x7FFFFFFFFFFFFFFEu:
            return False
        if header.messages > 1:
            if not read_varint(data, end, &offset, &span):
                return False
            header.last += <uint64_t>span + 1
        if header.last > 0x7FFFFFFFFFFFFFFEu or header.last - header.first + 1 < header.messages:
            return False
    header.body_offset = offset
    cdef uint64_t room = end - offset
    if header.codec:
        at = offset
        if not read_varint(data, end, &at, &size):
            return False
        if size > MAX_MESSAGE_SET_BYTES or size > SNAPPY_BEST * room:
            return False
        room = size
    return room >= FIRST_MESSAGE_BYTES + MESSAGE_BYTES * (<uint64_t>header.messages - 1)


cdef inline bint read_message(
    const uint8_t *data, size_t end, size_t *at, bint with_delta, Message *message
) noexcept nogil:
    """The message at `at`, which moves behind it; `with_delta`: a delta follows flags without NEXT_NUMBER."""
    cdef size_t here = at[0]
    cdef uint32_t length
    if here >= end:
        return False
    message.flags = data[here]
    here += 1
    if message.flags > LARGEST_FLAGS:
        return False
    message.delta = 0
    if with_delta and not message.flags & NEXT_NUMBER and not read_varint(data, end, &here, &message.delta):
        return False
    if not message.flags & SAME_TIMESTAMP:
        if end - here < 8:
            return False
        message.timestamp = read_u64(data + here)
        here += 8
    message.key_bytes = 0
    if message.flags & KEY:
        if here >= end:
            return False
        message.key_bytes = data[here]
        here += 1
        if end - here < message.key_bytes:
            return False
        message.key = data + here
        here += message.key_bytes
    if here < end and data[here] < 0x80:
        length = data[here]
        here += 1
    elif not read_varint(data, end, &here, &length):
        return False
    if end - here < length:
        return False
    message.value = data + here
    message.value_bytes = length
    at[0] = here + length
    return True


cdef inline bint has_delta(const Found *found, size_t index) noexcept nogil:
    """Whether message `index` may have a delta: the first and the last of a sparse bundle have none."""
    return found.sparse and index != 0 and index + 1 != found.announced


cdef inline uint64_t number_of(const Found *found, size_t index, uint64_t previous, const Message *message) noexcept nogil:
    """The number of message `index`, the one before which has the number `previous`."""
    if found.sparse and index != 0 and index + 1 == found.announced and message.flags & NEXT_NUMBER == 0:
        return found.last if found.last > previous else previous + 1
    return previous + 1 + message.delta


cdef inline bint begins_a_block(const uint8_t *data, size_t end, size_t at) noexcept nogil:
    """Whether a snappy block's size is followed by an element that brings bytes: there are none to copy yet."""
    cdef uint32_t size
    return read_varint(data, end, &at, &size) and at < end and data[at] & SNAPPY_KIND == 0


cdef inline bint walk_messages(const uint8_t *data, size_t end, const Header *header) noexcept nogil:
    """Whether exactly the messages of an uncompressed bundle's header lie up to `end`, with its numbers."""
    cdef Found found
    cdef Message message
    cdef size_t at = header.body_offset
    cdef size_t index
    cdef uint64_t number = header.first - 1
    found.sparse = header.sparse
    found.announced = header.messages
    found.last = header.last
    for index in range(header.messages):
        if not read_message(data, end, &at, has_delta(&found, index), &message):
            return False
        if header.sparse:
            number = number_of(&found, index, number, &message)
    return at == end and (not header.sparse or number == header.last)
