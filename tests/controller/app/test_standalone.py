"""The log of a controller that is alone: made and opened."""

from pathlib import Path

import pytest

from tank_controller.app.standalone import open_alone
from tank_controller.raft_node.replay import RaftStorageError

CLUSTER = "6f1c3f0e-cluster"


def test_a_new_log_is_opened_again_as_what_it_is(tmp_path: Path) -> None:
    first = open_alone(tmp_path, CLUSTER, may_be_new=True)
    again = open_alone(tmp_path, CLUSTER, may_be_new=False)
    assert again.own == first.own
    assert (again.stored.cluster_id, len(again.stored.entries)) == (CLUSTER, 1)


def test_nothing_in_a_folder_that_was_in_use_is_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RaftStorageError, match=r"has been in use.*backup"):
            open_alone(tmp_path, CLUSTER, may_be_new=False)


def test_another_clusters_log_is_refused(tmp_path: Path) -> None:
    open_alone(tmp_path, CLUSTER, may_be_new=True)
    with pytest.raises(RaftStorageError, match=f"belongs to cluster {CLUSTER}, this data folder to other"):
        open_alone(tmp_path, "other", may_be_new=True)
