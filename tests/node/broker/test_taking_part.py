"""A broker takes part in its cluster once its data folder has its registration."""

import logging
from pathlib import Path

import pytest

from tank_node.replication.role import Role
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.fault_disk import FaultDisk


def test_a_broker_whose_folder_cannot_be_written_leads_nothing_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultDisk()
    before = BenchNode(tmp_path, disk=disk)
    controller = before.controller
    controller.add("t", 1)
    assert before.broker.topics["t"].partitions[0].role is Role.LEADER
    before.flusher.close()
    disk.kill_process()
    controller.broker_epoch += 1
    disk.fail_write = lambda path: "meta.json" in path
    with BenchNode(tmp_path, disk=disk, controller=controller) as node:
        partition = node.broker.topics["t"].partitions[0]
        assert (controller.held_back, partition.role) == (True, Role.NONE)
        node.maintenance.run()
        assert partition.role is Role.NONE
        disk.fail_write = lambda path: False
        node.maintenance.run()
        assert (controller.held_back, partition.role) == (False, Role.LEADER)
        assert node.data_folder.meta.broker_epoch == controller.broker_epoch
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert sum("takes no part in the cluster until it can" in each for each in told) == 1
