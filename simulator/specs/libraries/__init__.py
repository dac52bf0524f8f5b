"""Libraries of collectives as typed data: what they make of the hardware, and how they choose."""
