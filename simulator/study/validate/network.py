"""Collectives and copies priced and compared with published times; exchanges of experts by their own rules."""

from simulator.interop.rows.exchanges import OPERATIONS
from simulator.interop.rows.jsonl import Line, Refused, parse_line
from simulator.interop.rows.network import NetworkRow, map_network
from simulator.interop.rows.single.copies import is_copy, map_copy
from simulator.run.measured.copies import copied
from simulator.run.measured.network import predicted, profile_of
from simulator.study.validate.exchanges import validate_exchange_line
from simulator.study.validate.timed import Timed, TimedOutcome, timed_line


def validate_network_line(line: Line) -> TimedOutcome:
    """Read and price one line of a file of measurements."""
    try:
        exchange = parse_line(line).get("op") in tuple(OPERATIONS)
    except Refused:
        exchange = False
    return validate_exchange_line(line) if exchange else timed_line(line, NetworkRow, _price)


def price_copy(row: NetworkRow) -> Timed:
    """A copy, priced; raises Refused where it cannot be."""
    mapped = map_copy(row)
    seconds, priced = copied(mapped)
    return Timed(priced, mapped.metric, mapped.measured_s, seconds, mapped.assumed)


def _price(row: NetworkRow) -> Timed:
    if is_copy(row.op):
        return price_copy(row)
    mapped = map_network(row)
    profile = profile_of(mapped)
    seconds = predicted(mapped, profile)
    if mapped.harness is not None:
        seconds = mapped.harness.seconds(row, seconds)
    return Timed(profile.name, mapped.metric, mapped.measured_s, seconds, mapped.assumed)
