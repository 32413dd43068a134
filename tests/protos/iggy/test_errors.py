"""Error codes: names once, numbers by era."""

import pytest

from tank_protos.iggy.eras import A1, A3, B1, B3, ERAS, SEED, V11, Era
from tank_protos.iggy.errors import IggyError, IggyTrouble, closes, code_of


@pytest.mark.parametrize(
    ("fault", "old", "classic", "vsr"),
    [
        (IggyTrouble.LEADER_UNKNOWN, 1, 8, 58),
        (IggyTrouble.NO_USERS, 1, 8, 58),
        (IggyTrouble.TOO_FEW_IN_SYNC, 1, 8, 57),
        (IggyTrouble.NOT_ACKNOWLEDGED, 1, 8, 1),
        (IggyTrouble.OVERLOADED, 1, 5, 58),
        (IggyTrouble.MALFORMED, 3, 3, 4),
        (IggyTrouble.UNKNOWN_COMMAND, 3, 3, 3),
    ],
)
def test_a_clusters_trouble_has_a_code_in_each_era(
    fault: IggyTrouble, old: int, classic: int, vsr: int
) -> None:
    assert {code_of(fault, era) for era in (SEED, A1, A3)} == {old}
    assert {code_of(fault, era) for era in (B1, B3)} == {classic}
    assert code_of(fault, V11) == vsr


def test_a_full_disk_is_among_the_errors_of_files() -> None:
    assert [int(code_of(IggyTrouble.DISK, era)) // 1000 for era in (SEED, B3, V11)] == [0, 10, 0]


@pytest.mark.parametrize("fault", IggyTrouble)
@pytest.mark.parametrize("era", ERAS, ids=lambda era: era.name)
def test_every_trouble_has_a_code(fault: IggyTrouble, era: Era) -> None:
    assert code_of(fault, era) in set(IggyError)


def test_the_seeds_groups_have_no_names() -> None:
    exists, gone = IggyError.CONSUMER_GROUP_NAME_ALREADY_EXISTS, IggyError.CONSUMER_GROUP_MEMBER_NOT_FOUND
    assert [code_of(exists, era) for era in (SEED, A1, B3, V11)] == [5001, 5004, 5004, 5004]
    assert [code_of(gone, era) for era in (SEED, A1, B3, V11)] == [5002, 5006, 5006, 5006]
    assert [code_of(IggyError.TOPIC_ID_NOT_FOUND, era) for era in ERAS] == [2010] * len(ERAS)


def test_connections_end_where_clients_would_wait_or_read_on_wrongly() -> None:
    assert [closes(IggyTrouble.MALFORMED, era) for era in (SEED, A3, B1, V11)] == [True, True, False, False]
    assert [closes(IggyTrouble.NOT_ACKNOWLEDGED, era) for era in (SEED, B3, V11)] == [False, True, True]
    assert [closes(IggyTrouble.UNKNOWN_COMMAND, era) for era in (SEED, A1, V11)] == [True, False, False]
    assert not closes(IggyError.UNAUTHORIZED, SEED)
