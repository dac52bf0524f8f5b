"""The clock as policies hold it that decide as they go and only make appointments."""

from simulator.engine.clock import Appointment, Clock
from simulator.engine.running import Running

__all__ = ["Agenda", "Appointment", "Running"]

Agenda = Clock
