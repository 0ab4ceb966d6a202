"""What a machine allows: bytes and operations a second, and no call for nothing.

An operation is an instruction that one lane executes: a product and a sum in one (an fma) count as
one. Times are in microseconds, so bandwidths are bytes a microsecond.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes

from . import draw
from .explorer import Explorer


@dataclass(frozen=True)
class Machine:
    """Three numbers of a GPU, as measured."""

    start_us: float  # a call that moves nothing
    bytes_a_us: float
    operations_a_us: float

    @property
    def ridge(self) -> float:
        """Operations a byte at which memory and arithmetic take the same time."""
        return self.operations_a_us / self.bytes_a_us

    def allowed(self, operations_a_byte: float) -> float:
        """Operations a microsecond at most."""
        return min(self.operations_a_us, operations_a_byte * self.bytes_a_us)

    def time_us(self, moved_bytes: float, operations: float = 0.0) -> float:
        """Of a kernel that moves so many bytes and executes so many operations."""
        slower = max(moved_bytes / self.bytes_a_us, operations / self.operations_a_us)
        return self.start_us + slower


def straight_line(sizes: Iterable[float], times: Iterable[float]) -> tuple[float, float]:
    """Start and slope of `time = start + slope * size`, all points alike in per cent.

    Least squares of relative errors: sizes span many powers of two, and the largest would decide
    alone otherwise.
    """
    size, time = np.array(list(sizes), dtype=float), np.array(list(times), dtype=float)
    columns = np.stack([1 / time, size / time], axis=1)
    (start, slope), *_ = np.linalg.lstsq(columns, np.ones_like(time), rcond=None)
    return float(start), float(slope)


class RooflineExplorer(Explorer):
    """A roofline: what memory and arithmetic allow, and a kernel under it.

    Attributes:
        bytes: slider; bytes that the kernel moves an element.
        operations: slider; operations that it executes an element.
        bandwidth: slider; terabytes that memory moves a second.
        said: what bounds the kernel, its time for the headline's 2^26 elements, and how many
            operations an element cost nothing.
        picture: the roof and the kernel.
    """

    NAME, SIZE = "Roofline explorer", (7.0, 3.4)
    ELEMENTS = 2**26

    def __init__(
        self,
        bytes: int = 4,
        operations: int = 10,
        bandwidth: float = 4.2,
        operations_a_us: float = 33.4e6,
    ) -> None:
        self.operations_a_us = operations_a_us
        self.bytes = widgets.IntSlider(value=bytes, min=1, max=32, description="bytes")
        self.operations = widgets.IntSlider(
            value=operations, min=1, max=200, description="operations"
        )
        self.bandwidth = widgets.FloatSlider(
            value=bandwidth, min=1.0, max=8.0, step=0.1, description="TB/s"
        )
        super().__init__(self.bytes, self.operations, self.bandwidth)

    @property
    def machine(self) -> Machine:
        return Machine(0.0, 1e6 * self.bandwidth.value, self.operations_a_us)

    def _times(self) -> tuple[float, float]:
        """Microseconds that memory and arithmetic need for all elements."""
        machine = self.machine
        memory = self.bytes.value * self.ELEMENTS / machine.bytes_a_us
        return memory, self.operations.value * self.ELEMENTS / machine.operations_a_us

    def _said(self) -> str:
        memory, arithmetic = self._times()
        bound = "memory" if memory >= arithmetic else "arithmetic"
        free = int(self.bytes.value * self.machine.ridge)
        return (
            f"{self.operations.value / self.bytes.value:.1f} operations a byte: memory needs "
            f"{memory:.0f} us, arithmetic {arithmetic:.0f}; bound by {bound}. "
            f"Up to {free} operations an element are free."
        )

    def _draw_on(self, ax: Axes) -> None:
        roof(ax, self.machine)
        intensity = self.operations.value / self.bytes.value
        speed = self.operations.value * self.ELEMENTS / max(self._times())
        ax.plot(intensity, speed / 1e6, "o", color=draw.ORANGE, markersize=9, zorder=3)
        ax.set(xlim=(0.02, 256), ylim=(0.02, 60))


def roof(ax: Axes, machine: Machine) -> None:
    """The two lines under which every kernel of a machine stays, on logarithmic axes."""
    intensity = (1e-3, machine.ridge, 1e4)
    ax.loglog(intensity, [machine.allowed(x) / 1e6 for x in intensity], color=draw.BLUE)
    ax.axvline(machine.ridge, color=draw.INK, linewidth=1, linestyle=":")
    ax.set(xlabel="operations a byte", ylabel="million million operations\na second")
    ax.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.minorticks_off()  # a move of a slider draws all of them anew
    ax.grid(True)
