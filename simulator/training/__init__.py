"""From a model and a layout to a program: mesh, operators, schedules, sharding, recomputation, memory."""
