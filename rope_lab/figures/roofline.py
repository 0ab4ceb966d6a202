"""The roofline of notebook 08: a drawing, and a widget to move a kernel under it."""

import ipywidgets as widgets
from matplotlib.axes import Axes

from ..profiling.roofline import Machine
from . import style as draw
from .widgets import Explorer


class RooflineExplorer(Explorer):
    """A roofline: what bytes and instructions allow, and a kernel under it.

    Attributes:
        bytes: slider; bytes that the kernel moves an element.
        instructions: slider; instructions that it executes an element.
        bandwidth: slider; terabytes that memory moves a second.
        said: what bounds the kernel, its time for the headline's 2^26 elements, and how many
            instructions an element are free.
        picture: the roof and the kernel.
    """

    NAME, SIZE = "Roofline explorer", (7.0, 3.8)
    ELEMENTS = 2**26

    def __init__(
        self,
        bytes: int = 4,
        instructions: int = 10,
        bandwidth: float = 4.2,
        instructions_a_us: float = 33.4e6,
    ) -> None:
        self.instructions_a_us = instructions_a_us
        self.bytes = widgets.IntSlider(value=bytes, min=1, max=32, description="bytes")
        self.instructions = widgets.IntSlider(
            value=instructions, min=1, max=200, description="instructions"
        )
        self.bandwidth = widgets.FloatSlider(
            value=bandwidth, min=1.0, max=8.0, step=0.1, description="TB/s"
        )
        super().__init__(self.bytes, self.instructions, self.bandwidth)

    @property
    def machine(self) -> Machine:
        return Machine(0.0, 1e6 * self.bandwidth.value, self.instructions_a_us)

    def _times(self) -> tuple[float, float]:
        """Microseconds for the bytes and for the instructions of all elements."""
        machine = self.machine
        memory = self.bytes.value * self.ELEMENTS / machine.bytes_a_us
        return memory, self.instructions.value * self.ELEMENTS / machine.instructions_a_us

    def _bound(self) -> str:
        memory, compute = self._times()
        return "memory-bound" if memory >= compute else "compute-bound"

    def _said(self) -> str:
        memory, compute = self._times()
        free = int(self.bytes.value * self.machine.ridge)
        return (
            f"{self.instructions.value / self.bytes.value:.1f} instructions a byte: bytes need "
            f"{memory:.0f} us, instructions {compute:.0f}; {self._bound()}. "
            f"Up to {free} instructions an element are free."
        )

    def _draw_on(self, ax: Axes) -> None:
        roof(ax, self.machine)
        intensity = self.instructions.value / self.bytes.value
        speed = self.instructions.value * self.ELEMENTS / max(self._times()) / 1e6
        look = {"color": draw.ORANGE, "markersize": 9, "zorder": 3, "linestyle": "none"}
        ax.plot(intensity, speed, "o", label="this kernel", **look)
        ax.figure.legend(loc="outside lower center", ncols=2)
        ax.set(xlim=(0.02, 1000), ylim=(0.02, 60), title=f"This kernel is {self._bound()}")


def roof(ax: Axes, machine: Machine) -> None:
    """The two lines under which every kernel of a machine stays, on logarithmic axes."""
    intensity = (1e-3, machine.ridge, 1e4)
    ax.loglog(
        intensity,
        [machine.allowed(x) / 1e6 for x in intensity],
        color=draw.BLUE,
        label="the most that the GPU allows",
    )
    ax.axvline(machine.ridge, color=draw.INK, linewidth=1, linestyle=":")
    ax.set(xlabel="instructions a byte", ylabel="10\u00b9\u00b2 instructions/s")
    ax.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    ax.minorticks_off()  # moving a slider would redraw all of them
    ax.grid(True)
