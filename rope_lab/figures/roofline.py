"""The roofline of notebook 08: a drawing, and a widget to move a kernel under it."""

from ipywidgets import FloatSlider, IntSlider
from matplotlib.axes import Axes

from ..profiling.roofline import Machine
from . import style as draw
from .widgets import Explorer


class RooflineExplorer(Explorer):
    """A roofline: what bytes and instructions allow, and a kernel under it.

    It moves `bytes` and executes `instructions` an element, and has the headline's 2^26 elements.
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
        super().__init__(
            bytes=IntSlider(bytes, 1, 32, description="bytes"),
            instructions=IntSlider(instructions, 1, 200, description="instructions"),
            bandwidth=FloatSlider(bandwidth, min=1, max=8, step=0.1, description="TB/s"),
        )

    def _machine_and_times(self, bytes, instructions, bandwidth) -> tuple[Machine, float, float]:
        """The machine, and microseconds for the bytes and the instructions of all elements."""
        machine = Machine(0.0, 1e6 * bandwidth, self.instructions_a_us)
        memory = bytes * self.ELEMENTS / machine.bytes_a_us
        return machine, memory, instructions * self.ELEMENTS / machine.instructions_a_us

    def words(self, bytes: int, instructions: int, bandwidth: float) -> str:
        machine, memory, compute = self._machine_and_times(bytes, instructions, bandwidth)
        return (
            f"{instructions / bytes:.1f} instructions a byte: bytes need {memory:.0f} us, "
            f"instructions {compute:.0f}; {_bound(memory, compute)}. "
            f"Up to {int(bytes * machine.ridge)} instructions an element are free."
        )

    def draw_on(self, ax: Axes, bytes: int, instructions: int, bandwidth: float) -> None:
        machine, memory, compute = self._machine_and_times(bytes, instructions, bandwidth)
        roof(ax, machine)
        speed = instructions * self.ELEMENTS / max(memory, compute) / 1e6
        look = {"color": draw.ORANGE, "markersize": 9, "zorder": 3}
        ax.plot(instructions / bytes, speed, "o", label="this kernel", **look)
        ax.figure.legend(loc="outside lower center", ncols=2)
        title = f"This kernel is {_bound(memory, compute)}"
        ax.set(xlim=(0.02, 1000), ylim=(0.02, 60), title=title)


def _bound(memory: float, compute: float) -> str:
    return "memory-bound" if memory >= compute else "compute-bound"


def roof(ax: Axes, machine: Machine) -> None:
    """The two lines under which every kernel of a machine stays, on logarithmic axes."""
    intensity = (1e-3, machine.ridge, 1e4)
    allowed = [machine.allowed(x) / 1e6 for x in intensity]
    ax.plot(intensity, allowed, color=draw.BLUE, label="the most that the GPU allows")
    ax.axvline(machine.ridge, color=draw.INK, linewidth=1, linestyle=":")
    ax.set(xlabel="instructions a byte", ylabel="10\u00b9\u00b2 instructions/s")
    draw.log_ticks(ax, "x", [0.1, 1, 10, 100])
    draw.log_ticks(ax, "y", [0.01, 0.1, 1, 10, 100])
    ax.grid(True)
