"""How the products of the layers take their factors in 8 or 4 bits: one recipe a line.

A product takes both of its factors along the summed dimension, which is another one in each of its three uses, so that
a tensor is wanted in two orders: rows for the forward pass and the gradient of rows, columns for that of weights.
Hopper and Ada multiply 8-bit factors in one order only and keep a transposed copy; Blackwell takes either of a tensor
with one scale. Scales of blocks lie along the order, so that each order is cast from 16 bits by itself.

Sources: docs.nvidia.com deeplearning transformer-engine, low precision training; arXiv:2412.19437, section 3.3
(`fp8-block`); OCP MX specification (`mxfp8`); arXiv:2509.25149 (`nvfp4`); google/aqt (`int8`: `config_v3` of
aqt/jax/v2/config.py as MaxText calls it: all three products, each with both factors cast for itself by scales of rows
or columns from the tensor, gradients rounded by `jax.random.uniform` in fp32); pytorch/ao torchao/float8
(`fp8-rowwise`: every factor of every product cast from 16 bits along its own dimension). Left out: the latency of amax
histories (one reduction a step), random numbers of stochastic rounding of `nvfp4`, which its casts draw as they work.
"""

from dataclasses import dataclass

from simulator.errors import InputError, Problem
from simulator.registry import Registry
from simulator.specs.hardware import Accelerator


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to cast the factors of products."""

    gemm: str
    """Number format of the device in which they are multiplied."""
    peak: str
    """Number format whose peak that is."""
    element: float
    """Bytes of an element of activations or gradients in one order, scales included."""
    weight: float
    """Bytes of an element of weights in one order, scales included."""
    blocks: bool = False
    """Whether scales belong to blocks of a row or column, so that both orders are cast from 16 bits."""
    reads: int = 1
    """Times that a cast reads the 16 bits: twice where the largest value has to be known first."""
    normed: int = 1
    """The same where a norm wrote them; 0 where the norm itself writes the first order."""
    kernels: int = 1
    """Kernels that cast a tensor: three where its largest value and its scale are worked out by kernels of their own,
    of which the first is left out behind a norm (Transformer Engine, `Float8CurrentScalingQuantizer`)."""
    amax: bool = False
    """Whether ranks that gather a tensor agree on its largest value before they cast it."""
    primary: bool = True
    """Whether frameworks can keep weights in the format alone, and gather them so, without a copy in 16 bits."""
    noise: float = 0.0
    """Bytes of random numbers by which an element of a gradient is rounded, drawn for each order, written and read."""
    gathered: bool = True
    """Whether ranks gather rows for products in the format; else in 16 bits, all of which each of them casts."""
    each_use: bool = False
    """Whether weights are cast for each product with rows, and read twice for it, in place of once a step."""
    scales: float = 0.0
    """Bytes of scales an element that are brought into the order of the products before each of them, by a kernel for
    each factor (Transformer Engine's `swizzle_scaling_factors`, before casts wrote that order themselves)."""
    needs: str = ""
    """Number format of devices that can run it; empty for all, which compute in 16 bits where they lack fp8."""

    def orders(self, either: bool) -> int:
        """Copies of a tensor; `either` says that the device multiplies in any order."""
        return 1 if either and not self.blocks else 2

    def cast(
        self, either: bool, normed: bool = False, own: float = 1.0, again: bool = True, frozen: bool = False
    ) -> tuple[float, float]:
        """Bytes an element that casting rows reads and writes.

        `normed` rows come out of a norm. `own` is the share of the rows that this device casts before it gathers those
        of others; `again` says that what it gathered is wanted in its other order too. For a `frozen` matrix, which has
        no gradient, one order will do.
        """
        reads, orders = 2.0 * (self.normed if normed else self.reads), 1 if frozen else self.orders(either)
        if self.blocks:
            return reads * own, orders * self.element * own
        turned = (orders - 1) * self.element  # by a pass of its own, unless the cast has the rows at hand
        if own < 1.0:
            return reads * own + turned * again, (self.element * own if reads else 0.0) + turned * again
        if not reads:  # the norm writes a byte less than the two that it is counted with, the other order one more
            return turned, 0.0
        return reads, orders * self.element

    def beside(self, weights: float, gradients: float) -> tuple[float, float]:
        """Bytes that are read and written besides for a product: of `weights` elements that are cast for it, and of
        random numbers for both orders of so many elements of gradients."""
        cast, drawn = weights if self.each_use else 0.0, 2.0 * gradients * self.noise
        return 2.0 * 2.0 * cast + drawn, self.weight * cast + drawn

    def sent(self, gradients: bool) -> float:
        """Bytes an element of rows that are gathered in the format: in both orders where neither gives the other and
        the products of a pass want both, as those of gradients do."""
        return self.element * (2 if gradients and self.blocks else 1)


RECIPES: Registry[Recipe] = Registry("number format of products")

DELAYED = Recipe("fp8", "fp8", 1.0, 1.0, normed=0)
"""One scale a tensor, from the largest values of steps before."""


def _register(**recipes: Recipe) -> None:
    for name, recipe in recipes.items():
        RECIPES.add(name.replace("_", "-"))(recipe)


_register(
    fp8=DELAYED,
    fp8_delayed=DELAYED,
    fp8_current=Recipe("fp8", "fp8", 1.0, 1.0, reads=2, kernels=3, amax=True),
    fp8_rowwise=Recipe(
        "fp8",
        "fp8",
        1.0,
        1.0,
        True,
        reads=3,
        normed=2,
        kernels=3,
        primary=False,
        gathered=False,
        each_use=True,
        needs="fp8",
    ),
    fp8_block=Recipe("fp8_block", "fp8", 1 + 4 / 128, 1 + 4 / 128**2, blocks=True, needs="fp8"),
    mxfp8=Recipe("fp8", "fp8", 1 + 1 / 32, 1 + 1 / 32, blocks=True, primary=False, scales=1 / 32, needs="fp4"),
    nvfp4=Recipe(
        "fp4", "fp4", 0.5 + 1 / 16, 0.5 + 1 / 16, True, reads=2, amax=True, primary=False, scales=1 / 16, needs="fp4"
    ),
    int8=Recipe("int8", "int8", 1.0, 1.0, reads=4, primary=False, noise=4.0, each_use=True, needs="int8"),
)


def recipe_of(precision: str, accelerator: Accelerator) -> Recipe | None:
    """How a device casts under a precision; None where it multiplies 16 bits or more. InputError where it cannot run
    the recipe."""
    if not RECIPES.has(precision):
        return None
    recipe, peaks = RECIPES.get(precision), accelerator.peak
    if recipe.needs and recipe.needs not in peaks:
        known = [name for name in ("fp8-delayed", "fp8-block", "bf16") if name == "bf16" or "fp8" in peaks]
        message = (
            f"{accelerator.name} cannot multiply as `{precision}` asks: only devices with {recipe.needs} arithmetic can"
        )
        raise InputError(Problem(message, path="training.precision", hint=f"write {' or '.join(known)}"))
    return recipe if recipe.needs or "fp8" in peaks else None


def any_order(accelerator: Accelerator) -> bool:
    """Whether a device multiplies 8-bit factors in either order: those that have 4-bit arithmetic do (SM 10)."""
    return "fp4" in accelerator.peak


def dispatched(kernel: str | None, accelerator: Accelerator) -> str | None:
    """The attention kernel that a stack's is on a device: PyTorch's `scaled_dot_product_attention`, as torchtitan and
    what is built like it ask for it, takes cuDNN's on Blackwell (pytorch/torchtitan#1196) and FlashAttention-2 before,
    where cuDNN's is opt-in (pytorch/pytorch#138522), and on devices of others."""
    if kernel != "sdpa":
        return kernel
    return "cudnn" if accelerator.vendor == "NVIDIA" and any_order(accelerator) else "fa2"


def turns_weights(recipe: Recipe | None, accelerator: Accelerator, said: bool | None) -> bool:
    """Whether weights with one scale are kept in one order and turned at every use in the other: where it is `said`,
    and else in AMD's builds of Megatron and NeMo, which switch the cache of transposed weights off (AMD-AGI/Primus,
    `no_fp8_weight_transpose_cache`; its MLPerf Training submissions, `ENABLE_TRANSPOSE_CACHE=0`)."""
    if recipe is None or recipe.blocks or any_order(accelerator):
        return False
    return accelerator.vendor == "AMD" if said is None else said
