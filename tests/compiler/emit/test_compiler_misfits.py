"""Values that have no place on the wire: what encoding says of them."""

import pytest

from tank_protos.wire.errors import OutOfRange
from tests.support.compiled import compiled


def test_a_value_that_does_not_fit_is_named() -> None:
    codec = compiled({"name": "A", "type": "uint8"}, {"name": "Name", "type": "str8"})
    nullable = compiled({"name": "A", "type": "str16", "nullableVersions": "0+"})
    for message, what in [
        (codec(a=256), "Example.a is 256; the field can hold 0 to 255"),
        (codec(name="x" * 256), "Example.name has a length of 256; the field can hold 0 to 255"),
        (nullable(a="x" * 70000), "Example.a has a length of 70000; the field can hold 0 to 65534"),
        (codec(name="\ud800"), "Example.name has a lone surrogate, which UTF-8 has no form for; remove it"),
        (codec(a="x"), "Example cannot be encoded: required argument is not an integer"),
    ]:
        with pytest.raises(OutOfRange) as caught:
            message.encode()
        assert str(caught.value) == what


def test_an_element_that_does_not_fit_is_named() -> None:
    numbers = compiled({"name": "A", "type": "[]int16", "count": "uint8"})
    texts = compiled({"name": "A", "type": "[]str8", "count": "uint8"})
    varints = compiled({"name": "A", "type": "[]varint", "count": "uint8"})
    for message, what in [
        (numbers(a=[0, -32769]), "Example.a[1] is -32769; the field can hold -32768 to 32767"),
        (numbers(a=[0] * 256), "Example.a has a length of 256; the field can hold 0 to 255"),
        (texts(a=["x", "", "x" * 256]), "Example.a[2] has a length of 256; the field can hold 0 to 255"),
        (texts(a=["\ud800"]), "Example.a[0] has a lone surrogate, which UTF-8 has no form for; remove it"),
        (varints(a=[1 << 32]), "4294967296 does not fit a varint: it holds 0 to 4294967295"),
    ]:
        with pytest.raises(OutOfRange) as caught:
            message.encode()
        assert str(caught.value) == what
