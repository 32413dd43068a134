"""The high-water mark over a stop: what clients may have been shown does not go back."""

from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick
from tank_node.refusal_log import RefusalLog
from tests.support.storage.logs import Folder, append


def test_a_mark_that_moved_since_the_last_checkpoint_survives_an_orderly_stop() -> None:
    folder = Folder()
    log = folder.log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.flush()
    partition = Partition(
        "t",
        0,
        log,
        tick=Tick(),
        limits=Limits(),
        metrics=Metrics(),
        refusals=RefusalLog(Metrics()),
        on_failure=lambda partition, error: None,
    )
    partition.advance(1)
    folder.data.write_checkpoint()
    partition.advance(3)
    assert folder.reopen().high_water_mark == 3
