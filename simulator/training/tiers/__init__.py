"""Memory beside the devices': what a training job keeps in that of its hosts and on NVMe drives, and how it travels."""
