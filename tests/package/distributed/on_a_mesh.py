"""What cases on two ranks share: their list, and meshes."""

from functools import cache, partial
from itertools import product

from torch.distributed.device_mesh import init_device_mesh


class Cases(dict):
    """Cases by name: functions of the device, registered with their arguments."""

    def for_each(self, *lists):
        """Registers a function for arguments, one from each list."""

        def register(function):
            for chosen in product(*lists):
                self[", ".join([function.__name__, *map(str, chosen)])] = partial(function, *chosen)
            return function

        return register


@cache
def mesh_of(device, *sizes):
    """A mesh of all ranks. Making one takes longer than most cases, so they share it."""
    names = ("cp",) if len(sizes) == 1 else ("dp", "tp")
    return init_device_mesh(device, sizes, mesh_dim_names=names)
