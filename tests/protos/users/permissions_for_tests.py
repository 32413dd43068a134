"""Documents of rights that tests share."""

from hypothesis import strategies as st

from tank_protos.users.permissions import (
    GlobalRight,
    Permissions,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
)

numbers = st.integers(0, 0xFFFF_FFFE)
topics = st.builds(TopicPermissions, numbers, st.integers(0, 15).map(TopicRight))
streams = st.builds(
    StreamPermissions,
    numbers,
    st.integers(0, 63).map(StreamRight),
    st.none() | st.lists(topics, min_size=1, max_size=4, unique_by=lambda each: each.topic).map(tuple),
)
documents = st.builds(
    Permissions,
    st.integers(0, 1023).map(GlobalRight),
    st.none() | st.lists(streams, max_size=4, unique_by=lambda each: each.stream).map(tuple),
)

READER = Permissions(
    GlobalRight.READ_SERVERS,
    (
        StreamPermissions(7, StreamRight.READ_STREAM),
        StreamPermissions(
            3,
            StreamRight(0),
            (
                TopicPermissions(9, TopicRight.SEND_MESSAGES),
                TopicPermissions(2, TopicRight.MANAGE_TOPIC | TopicRight.READ_TOPIC),
            ),
        ),
    ),
)
