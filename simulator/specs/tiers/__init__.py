"""What lives beside the memory of devices, how states are cut, and how seldom workers meet: the keys of it."""
