"""The Python interface: what `import simulator as sim` offers, put together from the rooms below.

The names are listed in `simulator/__init__.py`, which loads each when it is first asked for.
"""
