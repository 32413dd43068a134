"""What documents of permissions allow, against a plain list of Iggy's rules."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.users.rights import ALL_OF_STREAMS, NO_RIGHTS, IggyAction, rights_of
from tank_protos.users.permissions import (
    ALL_RIGHTS,
    GlobalRight,
    Permissions,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
)

G, S, T, A = GlobalRight, StreamRight, TopicRight, IggyAction

RULES: dict[IggyAction, tuple[GlobalRight, StreamRight, TopicRight]] = {
    A.READ_SERVERS: (G.READ_SERVERS | G.MANAGE_SERVERS, S(0), T(0)),
    A.MANAGE_SERVERS: (G.MANAGE_SERVERS, S(0), T(0)),
    A.READ_USERS: (G.READ_USERS | G.MANAGE_USERS, S(0), T(0)),
    A.MANAGE_USERS: (G.MANAGE_USERS, S(0), T(0)),
    A.CREATE_STREAM: (G.MANAGE_STREAMS, S(0), T(0)),
    A.READ_STREAM: (G.READ_STREAMS | G.MANAGE_STREAMS, S.READ_STREAM | S.MANAGE_STREAM, T(0)),
    A.MANAGE_STREAM: (G.MANAGE_STREAMS, S.MANAGE_STREAM, T(0)),
    A.CREATE_TOPIC: (G.MANAGE_STREAMS | G.MANAGE_TOPICS, S.MANAGE_STREAM | S.MANAGE_TOPICS, T(0)),
    A.READ_TOPIC: (
        G.READ_STREAMS | G.MANAGE_STREAMS | G.READ_TOPICS | G.MANAGE_TOPICS,
        S.READ_STREAM | S.MANAGE_STREAM | S.READ_TOPICS | S.MANAGE_TOPICS,
        T.READ_TOPIC | T.MANAGE_TOPIC,
    ),
    A.MANAGE_TOPIC: (
        G.MANAGE_STREAMS | G.MANAGE_TOPICS, S.MANAGE_STREAM | S.MANAGE_TOPICS, T.MANAGE_TOPIC
    ),
    A.POLL: (
        G.POLL_MESSAGES,
        S.READ_STREAM | S.MANAGE_TOPICS | S.READ_TOPICS | S.POLL_MESSAGES,
        T.POLL_MESSAGES | T.READ_TOPIC | T.MANAGE_TOPIC,
    ),
    A.SEND: (
        G.SEND_MESSAGES,
        S.MANAGE_STREAM | S.MANAGE_TOPICS | S.SEND_MESSAGES,
        T.SEND_MESSAGES | T.MANAGE_TOPIC,
    ),
}  # fmt: skip
"""Who may: any of these rights will do, on the server, on the stream, or on the topic."""

STREAMS, TOPICS = range(4), range(3)
Born = dict[tuple[int, int | None], int]
"""The entries that made streams (number, None) and topics (stream's number, number)."""
NOW: Born = {
    (stream, topic): 1000 * (stream + 1) + (0 if topic is None else topic + 1)
    for stream in STREAMS
    for topic in (None, *TOPICS)
}

topics = st.builds(TopicPermissions, st.sampled_from(TOPICS), st.integers(0, 15).map(TopicRight))
streams = st.builds(
    StreamPermissions,
    st.sampled_from(STREAMS),
    st.sampled_from([0, 1, 2, 4, 8, 16, 32, 5, 63]).map(StreamRight),
    st.none() | st.lists(topics, max_size=3, unique_by=lambda each: each.topic).map(tuple),
)
documents = st.builds(
    Permissions,
    st.sampled_from([0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1023]).map(GlobalRight),
    st.none() | st.lists(streams, max_size=4, unique_by=lambda each: each.stream).map(tuple),
)


def births(document: Permissions, born: Born) -> list[int]:
    return [born.get(place, 0) for place in document.places()]


def may(document: Permissions, action: IggyAction, stream: int | None, topic: int | None) -> bool:
    """The rules as they are said, on the numbers that the document has."""
    everywhere, in_stream, in_topic = RULES[action]
    if document.rights & everywhere:
        return True
    for named in document.streams or ():
        if named.stream != stream:
            continue
        if named.rights & in_stream:
            return True
        for each in named.topics or ():
            if each.topic == topic and each.rights & in_topic:
                return True
    return False


def questions() -> Iterator[tuple[IggyAction, int | None, int | None]]:
    for action in IggyAction:
        yield action, None, None
        for stream in STREAMS:
            for topic in (None, *TOPICS):
                yield action, stream, topic


@given(documents)
def test_a_request_is_allowed_where_a_rule_allows_it(document: Permissions) -> None:
    rights = rights_of(document, births(document, NOW))
    for action, stream, topic in questions():
        stream_born = 0 if stream is None else NOW[stream, None]
        topic_born = 0 if stream is None or topic is None else NOW[stream, topic]
        asked = (document, action, stream, topic)
        assert rights.allow(action, stream_born, topic_born) is may(*asked), asked


@given(documents, st.sets(st.tuples(st.sampled_from(STREAMS), st.none() | st.sampled_from(TOPICS))))
def test_what_is_made_anew_under_an_old_number_inherits_nothing(
    document: Permissions, anew: set[tuple[int, int | None]]
) -> None:
    rights = rights_of(document, births(document, NOW))
    later = {
        place: born + (500 if place in anew or (place[0], None) in anew else 0) for place, born in NOW.items()
    }
    for (stream, topic), born in later.items():
        if topic is None or born == NOW[stream, topic] or (stream, None) not in anew:
            continue
        for action in IggyAction:
            assert rights.allow(action, later[stream, None], born) is bool(
                document.rights & RULES[action][0]
            ), (document, action, stream, topic)


@given(documents)
def test_what_was_not_there_when_the_permissions_were_given_is_allowed_by_those_of_the_server_alone(
    document: Permissions,
) -> None:
    rights = rights_of(document, [])
    assert rights_of(document, [0] * len(list(document.places()))) == rights
    for action, stream, topic in questions():
        stream_born = 0 if stream is None else NOW[stream, None]
        topic_born = 0 if stream is None or topic is None else NOW[stream, topic]
        assert rights.allow(action, stream_born, topic_born) is bool(document.rights & RULES[action][0])


@pytest.mark.parametrize("action", IggyAction)
def test_without_permissions_nothing_is_allowed_and_with_all_everything(action: IggyAction) -> None:
    assert rights_of(None, []) is NO_RIGHTS
    assert not NO_RIGHTS.allow(action, 1, 2)
    assert rights_of(ALL_RIGHTS, []).allow(action)


def test_who_never_logs_in_sees_no_users_and_changes_no_server() -> None:
    kept = {action for action in IggyAction if not ALL_OF_STREAMS >> action & 1}
    assert kept == {A.MANAGE_SERVERS, A.READ_USERS, A.MANAGE_USERS}
