"""The clock as policies hold it that decide as they go and only make appointments."""

from simulator.engine.clock import Clock
from simulator.engine.event import Appointment
from simulator.engine.running import Running

__all__ = ["Agenda", "Appointment", "Running"]

Agenda = Clock
