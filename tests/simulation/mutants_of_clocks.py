"""What is broken on purpose in what is made of clocks that jump, or disagree."""

from tests.simulation.mutant import Mutant
from tests.simulation.story import Kind

COMMANDS = "controller/tank_controller/"
NODE = "node/tank_node/"

MUTANTS = (
    Mutant(
        "a wall clock is believed wherever it jumps",
        NODE + "clock.py",
        "wall_ms if wall_ms < most_ms else most_ms",
        "wall_ms",
        Kind.CLUSTER,
        told="a_leaders_clock_jumps_for_a_year",
    ),
    Mutant(
        "a jump of the clock counts as silence of all producers",
        NODE + "log/producers.py",
        "LONGEST_STEP_MS = 86_400_000\n",
        "LONGEST_STEP_MS = 30 * 86_400_000\n",
        Kind.CLUSTER,
        told="all_start_with_their_clocks_nine_days_ahead",
    ),
    Mutant(
        "a broker whose clock is off is elected like any other",
        COMMANDS + "elections.py",
        "            if not brokers[broker_id].steps_aside:",
        "            if not brokers[broker_id].leaves:",
        Kind.CLUSTER,
        told="a_leaders_clock_is_off",
    ),
    Mutant(
        "the leading controller's clock is the measure where brokers' have no majority",
        COMMANDS + "broker_clocks.py",
        "        return found or majorities([*brokers, own.widened(self._half_ms)])",
        "        return found or [own]",
        Kind.CLUSTER,
        told="clocks_without_a_majority_stop_nothing",
    ),
    Mutant(
        "a broker whose clock is off is none any more when it starts again",
        COMMANDS + "broker_commands.py",
        "        clock_off=before is not None and before.clock_off,\n",
        "",
        Kind.CLUSTER,
        told="a_broker_whose_clock_is_off_starts_again",
    ),
)
