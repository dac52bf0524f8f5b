"""Energy and money of a device's time."""


def energy_j(peak_w: float, idle_w: float, busy: float, duration_s: float) -> float:
    """Energy in joules of one device that is busy for the fraction `busy` of `duration_s` seconds.

    Power is linear between `idle_w` and `peak_w`; ValueError where `busy` is no fraction.
    """
    if not 0.0 <= busy <= 1.0:
        raise ValueError(f"busy is a fraction of time, got {busy}")
    return (idle_w + (peak_w - idle_w) * busy) * duration_s


def cost_usd(price_per_second: float, devices: int, duration_s: float) -> float:
    """Rent in US dollars of `devices` devices for `duration_s` seconds."""
    return price_per_second * devices * duration_s
