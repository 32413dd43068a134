"""A cluster whose scaling is governed, by hand."""

from tank_controller.leader import scaling
from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import Governed


def governed(brokers: int, *, partitions: int = 12, factor: int = 3) -> Governed:
    cluster = Cluster(*range(1, brokers + 1))
    cluster.topic(partitions=partitions, factor=factor)
    found = Governed(cluster)
    found.scaling.wanted = brokers
    found.rest()
    found.run(scaling.YOUNG_MS // 1000 + 1)
    found.scaling.news.clear()
    return found
