"""Clusters with eligible replicas."""

from tests.controller.cluster_for_tests import Cluster


def both_eligible(cluster: Cluster, flush: str = "") -> int:
    """A topic of rf 2, both replicas needed, both fenced with all that was acknowledged."""
    if flush:
        t = cluster.topic(factor=2, min__insync__replicas="2", flush=flush)
    else:
        t = cluster.topic(factor=2, min__insync__replicas="2")
    cluster.fence(2, 1)
    assert cluster.partition(t).eligible == (1, 2)
    return t
