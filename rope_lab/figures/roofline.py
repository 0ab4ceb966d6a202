"""The roofline of notebook 08: a drawing, and a widget to move a kernel about under it."""

import ipywidgets as widgets
from matplotlib.axes import Axes

from ..profiling.roofline import Machine
from . import style as draw
from .widgets import Explorer


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
