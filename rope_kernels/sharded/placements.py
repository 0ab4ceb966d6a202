"""Which placements a call may have, and the errors for all others.

Only what every rank knows is looked at, so all ranks raise the same error, and none waits for the
others. A rotation needs whole rows: batch, sequence and heads may be sharded, the head dimension
never.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from ..call.checks import bad
from ..machine.modes import wants_grad

Placements = tuple[Placement, ...]
IN_WORDS = {"b": "batch", "s": "sequence", "t": "tokens", "h": "heads"}


@dataclass(frozen=True, slots=True)
class Sharding:
    """How one of the rotated tensors is sharded."""

    name: str
    t: DTensor
    letters: tuple[str | None, ...]  # of the format: what each dimension of the mesh shards

    @property
    def mesh(self) -> DeviceMesh:
        return self.t.device_mesh

    def dimensions(self, letter: str) -> list[int]:
        """Of the mesh, those that shard this one of the tensor."""
        return [i for i, x in enumerate(self.letters) if x == letter]

    def ranks(self, letter: str) -> int:
        """How many shards this dimension has."""
        return prod([self.mesh.size(i) for i in self.dimensions(letter)])

    def rank(self, letter: str) -> int:
        """The number of this rank's shard of this dimension."""
        number = 0
        for i in self.dimensions(letter):
            number = number * self.mesh.size(i) + self.mesh.get_local_rank(i)
        return number

    def part(self, letter: str, size: int) -> tuple[int, int]:
        """This rank's share of so many indices: the first one, and how many. As `torch.chunk`."""
        first = 0
        for i in self.dimensions(letter):
            chunk = -(-size // self.mesh.size(i))
            before = min(chunk * self.mesh.get_local_rank(i), size)
            first, size = first + before, min(chunk, size - before)
        return first, size


def sharding_of(name: str, t: DTensor, tensor_format: str) -> Sharding:
    """How a tensor to rotate is sharded.

    Raises:
        ValueError: its placements are not accepted, or its mesh does not have this rank, or the
            local tensor is not the shard that the placements say.
    """
    letters = tuple([_letter_of(placement, t, tensor_format) for placement in t.placements])
    if None in [x for x, p in zip(letters, t.placements, strict=True) if not p.is_replicate()]:
        dims = [f"Shard({i}) ({IN_WORDS[x]})" for i, x in enumerate(tensor_format) if x != "d"]
        raise bad(_came(name, t), f"on each dimension of a mesh Replicate(), {', '.join(dims)}")
    if t.device_mesh.get_coordinate() is None:
        came = f"{name} is on {mesh_in_words(t.device_mesh)}, which does not have this rank"
        raise bad(came, "a call on the ranks of the mesh")
    sharding = Sharding(name, t, letters)
    parts = [sharding.part(x, n)[1] for x, n in zip(tensor_format, t.shape, strict=True)]
    if tuple(t._local_tensor.shape) != tuple(parts):
        came = f"{_came(name, t)}, and a local tensor of shape {tuple(t._local_tensor.shape)}"
        raise bad(came, f"here {tuple(parts)}; DTensor.from_local needs shape= for uneven shards")
    return sharding


def _letter_of(placement: Placement, t: Tensor, tensor_format: str) -> str | None:
    """The dimension that is sharded; None for a replicated tensor, and for what isn't accepted."""
    if type(placement) is not Shard:
        return None
    dims = zip(range(t.dim()), range(-t.dim(), 0), tensor_format, strict=True)
    # compared, not subscripted: torch.compile may have made a symbol of the dimension
    found = [x for i, from_end, x in dims if placement.dim == i or placement.dim == from_end]
    return None if found == ["d"] else found[0]


def check_pair(q: Sharding, k: Sharding, heads: tuple[int, int]) -> None:
    """Check that q and k are sharded the same way, and that each rank has the keys of its queries.

    Query head i uses key head i // (q heads / k heads). Replicated keys beside sharded queries are
    accepted only where each rank needs all of them: where there is one head of them.
    """
    if q.mesh != k.mesh:
        came = f"k is on {mesh_in_words(k.mesh)}"
        raise bad(came, f"the mesh of q, {mesh_in_words(q.mesh)}")
    for of_q, of_k in zip(q.letters, k.letters, strict=True):
        if of_q != of_k and not (of_q == "h" and of_k is None and heads[1] == 1):
            accepted = f"those of q, {q.t.placements}"
            if of_q == "h" and of_k is None:
                accepted += "; Replicate() only with one head of k"
            raise bad(_came("k", k.t), accepted)
    shards = [q.mesh.size(i) for i in k.dimensions("h")]
    if not shards or _share_groups(*heads, shards):
        return
    came = f"q and k have {heads[0]} and {heads[1]} heads, sharded on {mesh_in_words(q.mesh)}"
    accepted = (
        f"numbers of heads that {prod(shards)} divides, or other ones that give each rank the"
    )
    raise bad(came, f"{accepted} heads of k that its heads of q use")


def _share_groups(q_heads: int, k_heads: int, shards: list[int]) -> bool:
    """Whether a rank's heads of k are those that its heads of q use."""
    ranks, group = prod(shards), q_heads // max(1, k_heads)
    if k_heads % ranks == 0 and q_heads % ranks == 0:
        return True
    if q_heads != group * k_heads:
        return False
    return group == 1 or (len(shards) == 1 and -(-q_heads // ranks) == group * -(-k_heads // ranks))


def placements_beside(sharding: Sharding, dims: Mapping[str, int]) -> Placements:
    """What a tensor has that a rank reads beside its shard.

    `dims` says which of its dimensions are dimensions of the rotated tensor, by their letters. Each
    rank needs all of the others.
    """
    return tuple([Shard(dims[x]) if x in dims else Replicate() for x in sharding.letters])


def grad_placements_beside(sharding: Sharding, dims: Mapping[str, int]) -> Placements:
    """Of that tensor's gradient: a rank has the share that its rows add to a replicated one."""
    wanted = zip(sharding.letters, placements_beside(sharding, dims), strict=True)
    return tuple([Partial() if x and p.is_replicate() else p for x, p in wanted])


def check_beside(name: str, x: Tensor, sharding: Sharding, dims: Mapping[str, int]) -> None:
    """Check the placements of a tensor that a rank reads beside its shard."""
    wanted = placements_beside(sharding, dims)
    accepted = f"a DTensor with {wanted}, beside {sharding.name} with {sharding.t.placements}"
    if isinstance(x, DTensor):
        if x.device_mesh != sharding.mesh:
            came = f"{name} is on {mesh_in_words(x.device_mesh)}"
            raise bad(came, f"the mesh of {sharding.name}, {mesh_in_words(sharding.mesh)}")
        if x.placements != wanted:
            raise bad(_came(name, x), accepted)
        return
    if any(not p.is_replicate() for p in wanted):
        came = f"{name} of shape {tuple(x.shape)} is a plain tensor, on"
        raise bad(f"{came} {mesh_in_words(sharding.mesh)}", accepted)
    if wants_grad((x,)) and any(sharding.letters):
        came = f"{name} is a plain tensor that requires a gradient, of which each rank of"
        came += f" {mesh_in_words(sharding.mesh)} would have a share"
        raise bad(came, f"{accepted}; or {name}.detach()")


def mesh_in_words(mesh: DeviceMesh) -> str:
    """Its shape, and the names of its dimensions if they have some."""
    sizes, names = mesh.shape, mesh.mesh_dim_names
    if names is None:
        return f"mesh ({', '.join(map(str, sizes))})"
    return f"mesh ({', '.join([f'{x}={n}' for x, n in zip(names, sizes, strict=True)])})"


def _came(name: str, t: DTensor) -> str:
    came = f"{name} of shape {tuple(t.shape)} has placements {t.placements}"
    return f"{came} on {mesh_in_words(t.device_mesh)}"
