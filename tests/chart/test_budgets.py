"""PodDisruptionBudgets: what a drain of nodes may take away at a time, and the cluster goes on."""

import pytest

from tank_controller.limits import DEFAULT_REPLICATION_FACTOR
from tank_protos.topic_settings import TopicSettings
from tests.chart.rendering import Object, RefusedError, by_key, render


def may_be_away(component: str, replicas: int, values: Object | None = None) -> int:
    """As Kubernetes reckons with the StatefulSet's number of now: the part of a pod counts as a whole one."""
    budget = by_key(render(values))["PodDisruptionBudget", f"tank-{component}"]["spec"]
    assert budget.keys() == {"maxUnavailable", "selector"}
    allowed = budget["maxUnavailable"]
    if isinstance(allowed, str):
        return -(-replicas * int(allowed.removesuffix("%")) // 100)
    assert isinstance(allowed, int)
    return allowed


@pytest.mark.parametrize("controllers", [3, 4, 5])
def test_a_majority_of_controllers_stays_however_many_kubectl_scale_has_made(controllers: int) -> None:
    """The budget is rendered once, and the number changes without helm."""
    assert may_be_away("controller", controllers) == (controllers - 1) // 2


def test_a_node_with_the_only_controller_can_be_drained() -> None:
    """It is no majority's part, and a budget of none would keep its node for ever."""
    assert may_be_away("controller", 1) == 1


@pytest.mark.parametrize("brokers", [1, 2, 3, 40])
def test_topics_with_default_settings_take_writes_while_brokers_are_drained(brokers: int) -> None:
    replicas = min(brokers, DEFAULT_REPLICATION_FACTOR)
    spare = replicas - TopicSettings().min_insync(replicas)
    assert may_be_away("broker", brokers) == max(1, spare)


def test_a_value_says_otherwise() -> None:
    for allowed, away in ((2, 2), ("40%", 4)):
        values = {"broker": {"podDisruptionBudget": {"maxUnavailable": allowed}}}
        assert may_be_away("broker", 10, values) == away


@pytest.mark.parametrize("allowed", [0, "0%", "2", "101%"])
def test_a_budget_that_no_drain_gets_past_or_that_makes_no_sense_is_refused(allowed: object) -> None:
    with pytest.raises(RefusedError, match="/controller/podDisruptionBudget/maxUnavailable"):
        render({"controller": {"podDisruptionBudget": {"maxUnavailable": allowed}}})
