from simulator.results.prices import missing_power, missing_price, unpowered, unpriced


def machine(name: str, price: float | None) -> dict[str, object]:
    return {"node": {"accelerator": {"name": name, "price": price}}}


def test_devices_without_a_price_are_named_once() -> None:
    assert unpriced({"cluster": machine("A", None)}) == ["A"]
    assert unpriced({"cluster": machine("A", 1.0)}) == []
    pools = [{"cluster": machine("B", None)}, {"cluster": None}, {"cluster": machine("B", None)}]
    assert unpriced({"cluster": machine("A", None), "serving": {"pools": pools}}) == ["B", "A"]
    assert unpriced({}) == []


def test_the_key_to_write() -> None:
    assert "no price of A, B is known; write `cluster.node.accelerator.price=" in missing_price(["A", "B"])
    assert missing_price([]) == ""


def test_the_energy_that_is_not_known_names_the_device_and_the_key() -> None:
    scenario = {"cluster": {"node": {"accelerator": {"name": "TPU", "power": None, "price": 1}}}}
    assert (unpowered(scenario), unpriced(scenario)) == (["TPU"], [])
    assert "no power of TPU is known; write `cluster.node.accelerator.power.peak=400 W`" in missing_power(["TPU"])
    assert missing_power([]) == ""
