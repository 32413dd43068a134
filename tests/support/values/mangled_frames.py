"""Requests of Kafka's protocol that are almost right."""

from hypothesis import strategies as st


@st.composite
def mangled(draw: st.DrawFn, frame: bytes) -> bytes:
    """A request with some bytes behind its correlation id changed, removed or added."""
    body = bytearray(frame[4:])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(8, len(body) - 1))
        byte = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))
        match draw(st.sampled_from(["change", "change", "change", "remove", "add"])):
            case "change":
                body[at] = byte
            case "remove":
                del body[at : at + 1]
            case _:
                body.insert(at, byte)
    return len(body).to_bytes(4, "big") + bytes(body)
