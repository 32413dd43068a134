"""Permissions as text."""

import pytest
from hypothesis import given

from tank_protos.generated import control_pb2 as pb
from tank_protos.users.permissions import Permissions, decode
from tank_protos.users.rights_text import RightsTextError, births_of, parse_permissions, permission_rows
from tests.protos.users.permissions_for_tests import READER, documents


def test_each_place_has_its_rights() -> None:
    found = parse_permissions(
        "read_servers", ["7:read_stream"], ["3/9:send_messages", "3/2: manage_topic,read_topic "]
    )
    assert permission_rows(found) == [
        ("server", ["read_servers"]),
        ("stream 3", []),
        ("topic 3/2", ["manage_topic", "read_topic"]),
        ("topic 3/9", ["send_messages"]),
        ("stream 7", ["read_stream"]),
    ]
    assert sorted(permission_rows(found)) == sorted(permission_rows(READER))


@given(documents)
def test_what_is_shown_can_be_said_again(document: Permissions) -> None:
    rows = dict(permission_rows(document))
    said = {place: ",".join(rights) for place, rights in rows.items()}
    again = parse_permissions(
        said["server"],
        [f"{place.split()[1]}:{rights}" for place, rights in said.items() if place.startswith("stream")],
        [f"{place.split()[1]}:{rights}" for place, rights in said.items() if place.startswith("topic")],
    )
    assert dict(permission_rows(decode(again.encode()))) == rows


@pytest.mark.parametrize(
    ("everywhere", "streams", "topics", "said"),
    [
        ("fly", [], [], "no right fly"),
        ("", ["main:read_stream"], [], "main:read_stream"),
        ("", ["1:read_topic"], [], "no right read_topic"),
        ("", [], ["1:read_topic"], "1:read_topic"),
        ("", [f"{2**32 - 1}:read_stream"], [], "NUMBER"),
        ("", ["9" * 5_000 + ":read_stream"], [], "NUMBER"),
    ],
)
def test_what_is_no_right_or_place_is_named(
    everywhere: str, streams: list[str], topics: list[str], said: str
) -> None:
    with pytest.raises(RightsTextError, match=said):
        parse_permissions(everywhere, streams, topics)


def test_rights_are_given_in_what_has_the_number_now() -> None:
    topic = pb.IggyTopicSummary(topic=pb.Topic(iggy=pb.IggyPart(stream=3, number=9, born=21)))
    part = pb.IggyNamesAnswer(streams=[pb.IggyStream(number=3, born=20)], topics=[topic])
    asked = parse_permissions("", ["7:read_stream"], ["3/9:read_topic", "3/2:read_topic"])
    assert births_of(asked, [part]) == [20, 0, 21, 0]
