"""Dispatch and combine of mixtures of experts priced and compared with published times."""

from simulator.interop.rows.exchanges import ExchangeRow, map_exchange
from simulator.interop.rows.jsonl import Line
from simulator.run.measured.exchanges import predicted
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from simulator.study.validate.timed import Timed, TimedOutcome, timed_line


def validate_exchange_line(line: Line) -> TimedOutcome:
    """Read and price one line of a file of measurements."""
    return timed_line(line, ExchangeRow, _price)


def _price(row: ExchangeRow) -> Timed:
    mapped = map_exchange(row)
    seconds = predicted(mapped, load_spec(CollectiveProfile, mapped.library))
    return Timed(mapped.library, mapped.metric, mapped.measured_s, seconds, mapped.assumed)
