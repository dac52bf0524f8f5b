"""The clock, under the name by which those hold it who decide as they go and only make appointments."""

from simulator.engine.clock import Appointment, Clock

__all__ = ["Agenda", "Appointment"]

Agenda = Clock
