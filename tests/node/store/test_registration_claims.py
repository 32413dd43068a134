"""What a data folder says of itself at registration, before the cluster has told what its topics are."""

import copy

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tank_node.store.claims import Claims
from tests.support.storage.logs import DATA, FOLDER, TOPIC, Folder, append

REPLICATED = LogSettings(segment_bytes=100, replication_factor=3)


def used() -> Folder:
    """A folder with two partitions, synced and in the checkpoint, of a registered broker."""
    folder = Folder(settings=REPLICATED)
    for partition in (0, 1):
        log = folder.log(partition)
        for _ in range(10):
            append(log, b"x" * 30)
        log.flush()
    folder.data.write_checkpoint()
    folder.data.mark_registered(7)
    return folder


def claims_of(folder: Folder, boot: str = "boot-1") -> Claims:
    """A process starts and looks, as before its registration."""
    folder.boot = boot
    folder.data = folder.open()
    folder.data.open_found()
    return folder.data.claims()


@pytest.mark.parametrize(
    ("stop", "boot", "sure"),
    [
        ("close", "boot-1", True),
        ("close", "boot-2", True),
        ("kill", "boot-1", True),
        ("kill", "boot-2", False),
        ("kill", "", False),
    ],
)
def test_the_tail_is_sure_after_a_clean_stop_or_in_the_same_run_of_the_machine(
    stop: str, boot: str, sure: bool
) -> None:
    folder = used()
    if stop == "close":
        folder.data.close()
    else:
        folder.fault.kill_process()
    assert claims_of(folder, boot).tail_sure is sure


@pytest.mark.parametrize("told", [False, True])
def test_an_unsure_tail_stays_unsure_until_the_cluster_was_told(told: bool) -> None:
    folder = used()
    folder.fault.kill_process()
    assert not claims_of(folder, "boot-2").tail_sure
    if told:
        folder.data.mark_registered(7)
    folder.fault.kill_process()
    assert claims_of(folder, "boot-2").tail_sure is told, "a second start in the same run of the machine"
    folder.data.mark_registered(7)
    folder.fault.kill_process()
    assert claims_of(folder, "boot-2").tail_sure
    folder.fault.kill_process()
    assert not claims_of(folder, "boot-3").tail_sure


def test_a_sure_tail_stays_sure_though_nobody_was_told() -> None:
    folder = used()
    for _ in range(3):
        folder.fault.kill_process()
        assert claims_of(folder).tail_sure


def test_the_disk_is_the_same_until_it_is_emptied() -> None:
    folder = used()
    before = folder.data.meta.disk_uuid
    folder.data.close()
    assert claims_of(folder) == Claims(before, True, (), 7)
    for path in folder.fault.paths():
        folder.fault.delete(path)
    folder.fault.kill_process()
    for name in [name for name in folder.fault.names if name.startswith(DATA)]:
        del folder.fault.names[name]
    after = claims_of(folder)
    assert after.disk_uuid != before


def test_the_epoch_of_the_last_registration_is_kept_and_goes_back_with_the_folder() -> None:
    folder = used()
    folder.data.close()
    earlier = copy.deepcopy(folder.disk)
    assert claims_of(folder).broker_epoch == 7
    folder.data.mark_registered(9)
    folder.data.close()
    assert claims_of(folder).broker_epoch == 9
    folder.disk = earlier
    assert claims_of(folder).broker_epoch == 7


@pytest.mark.parametrize("lost", ["batch", "index", "folder"])
def test_what_is_damaged_is_said_before_anybody_asks_for_it(lost: str) -> None:
    folder = used()
    folder.fault.kill_process()
    if lost == "batch":
        # Only behind the recovery point is everything read at the start.
        folder.fault.delete(f"{DATA}/checkpoint")
        oldest = folder.fault.paths(".log")[0]
        folder.fault.overwrite(oldest, bytes(len(folder.fault.content(oldest))))
    elif lost == "index":
        folder.fault.delete(folder.fault.paths(".index")[0])
    else:
        for path in folder.fault.paths():
            if path.startswith(FOLDER):
                folder.fault.delete(path)
    claims = claims_of(folder)
    assert claims.damaged == ((TOPIC, 0),)
    log = folder.data.open_log(TOPIC, 0, REPLICATED)
    assert log.state is LogState.DAMAGED
    assert log.settings is REPLICATED, "and the log is the one that was opened then"
    assert folder.data.open_log(TOPIC, 1, REPLICATED).state is LogState.ACTIVE


@pytest.mark.parametrize("how", ["gone", "spoiled"])
def test_without_any_checkpoint_no_log_is_called_whole(how: str) -> None:
    folder = used()
    folder.fault.kill_process()
    for name in ("checkpoint", "checkpoint.previous"):
        path = f"{DATA}/{name}"
        if how == "gone":
            folder.fault.delete(path)
        else:
            folder.fault.overwrite(path, b"spoiled")
    claims = claims_of(folder)
    assert claims.damaged == ((TOPIC, 0), (TOPIC, 1))
    log = folder.log()
    assert log.state is LogState.ACTIVE, "what is left of it is good, and its leader adds the rest"
    log.refilled_through(log.last + 1)
    assert (TOPIC, 0) in folder.data.claims().damaged
    log.refilled_through(log.last)
    assert folder.data.claims().damaged == ((TOPIC, 1),)
    folder.data.write_checkpoint()
    folder.fault.kill_process()
    assert claims_of(folder).damaged == ((TOPIC, 1),)


def test_a_broker_that_is_killed_before_its_first_checkpoint_has_lost_none() -> None:
    folder = Folder(settings=REPLICATED)
    append(folder.log(), b"x")
    folder.fault.kill_process()
    assert claims_of(folder).damaged == ()


def test_nothing_is_mended_while_nobody_knows_how_many_replicas_there_are() -> None:
    folder = used()
    folder.fault.kill_process()
    folder.fault.delete(folder.fault.paths(".index")[0])
    before = folder.fault.paths()
    assert claims_of(folder).damaged == ((TOPIC, 0),)
    maintain(folder.log(), 1, 0)
    assert folder.fault.paths(".damaged") == []
    assert [path for path in before if path.startswith(FOLDER)] == [
        path for path in folder.fault.paths() if path.startswith(FOLDER)
    ]


def test_a_topic_that_the_cluster_does_not_know_is_set_aside_with_its_open_logs() -> None:
    folder = used()
    folder.data.close()
    claims_of(folder)
    log = folder.data.open_log(TOPIC, 0, REPLICATED)
    [aside] = folder.data.set_aside_unknown({TOPIC + 1})
    assert aside == f".stray-{TOPIC}-1"
    assert log.state is LogState.CLOSED
    assert folder.data.logs == {}
    assert folder.data.claims().damaged == ()
    fresh = folder.data.open_log(TOPIC + 1, 0, REPLICATED)
    append(fresh, b"new")
    assert fresh.last == 1
    assert any(f"/{aside}/0/" in path for path in folder.fault.paths(".log")), "its bytes stay"
    folder.data.close()
    assert claims_of(folder).damaged == (), "nor does the checkpoint speak of it any more"


def test_what_is_left_without_any_checkpoint_is_still_known_after_the_next_crash() -> None:
    """Else all such replicas would be called empty, and a lossy election might choose the shortest."""
    folder = used()
    last = folder.log().last
    folder.fault.kill_process()
    for path in folder.fault.paths("checkpoint") + folder.fault.paths("checkpoint.previous"):
        folder.fault.delete(path)
    assert (TOPIC, 0) in claims_of(folder).damaged
    epochs = folder.log().epochs
    folder.data.write_checkpoint()
    folder.fault.kill_process()
    assert (TOPIC, 0) in claims_of(folder).damaged
    log = folder.log()
    assert (log.last, log.health.recovery_point, log.epochs) == (last, last, epochs)
