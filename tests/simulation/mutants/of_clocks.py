"""Mutants of the handling of clocks that jump or disagree."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a wall clock is believed wherever it jumps",
        "tank_node.clock.SteadyClock.now_ms",
        "wall_ms if wall_ms < most_ms else most_ms",
        "wall_ms",
        Kind.CLUSTER,
        told="a_leaders_clock_jumps_for_a_year",
    ),
    Mutant(
        "a jump of the clock counts as silence of all producers",
        "tank_node.log.producers.LONGEST_STEP_MS",
        "LONGEST_STEP_MS = 86_400_000\n",
        "LONGEST_STEP_MS = 30 * 86_400_000\n",
        Kind.CLUSTER,
        told="all_start_with_their_clocks_nine_days_ahead",
    ),
    Mutant(
        "a broker whose clock is off is elected like any other",
        "tank_controller.commands.elections.Elections.best",
        "            if not brokers[broker_id].steps_aside:",
        "            if not brokers[broker_id].leaves:",
        Kind.CLUSTER,
        told="a_leaders_clock_is_off",
    ),
    Mutant(
        "the leading controller's clock is the measure where brokers' have no majority",
        "tank_controller.leader.brokers.clocks.BrokerClocks._agreed",
        "        return found or majorities([*brokers, own.widened(self._half_ms)])",
        "        return found or [own]",
        Kind.CLUSTER,
        told="clocks_without_a_majority_stop_nothing",
    ),
    Mutant(
        "a broker whose clock is off is none any more when it starts again",
        "tank_controller.commands.brokers.register_broker",
        "        clock_off=before is not None and before.clock_off,\n",
        "",
        Kind.CLUSTER,
        told="a_broker_whose_clock_is_off_starts_again",
    ),
)
