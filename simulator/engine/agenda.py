"""The clock as policies hold it that decide as they go and only make appointments."""

from simulator.engine.clock import Appointment, Clock

__all__ = ["Agenda", "Appointment"]

Agenda = Clock
