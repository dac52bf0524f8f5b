"""The clock: lanes of operations, signals, rendezvous and shared resources, run event by event.

The engine knows nothing of devices, tokens or gradients. Only this room imports SimPy, and only it moves time.
"""
