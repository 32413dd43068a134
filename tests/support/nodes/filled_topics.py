"""Topics with messages in a broker cell."""

import random

from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append, errors

MIB = 1024 * 1024


def fill(cell: BrokerCell, mib: int) -> None:
    told = Told()
    for token in range(mib):
        append(cell.nodes[1], random.Random(token).randbytes(MIB - 100), told, token)
        cell.run(100)
    cell.run(300)
    assert set(errors(told)) == {0}
