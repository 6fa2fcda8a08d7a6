"""Who this process is among those that were started together; read from the environment, so that it costs nothing."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from attncli.limits import whole_number

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets, and what torch.distributed asks for where something else starts the processes."""
OWN = (*NAMES, "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE")  # fmt: skip
STARTED = "ATTN_STARTED"
"""Set where attn itself has started the processes, and speaks for those that are lost."""


class Launch(NamedTuple):
    rank: int
    size: int
    local_rank: int
    """Among those of this machine."""

    @property
    def first(self) -> bool:
        """Whether this is the one that prints and writes."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.size > 1


ALONE = Launch(0, 1, 0)


def read_launch() -> Launch:
    """One process among several where everything is set that they need to find each other; else one alone."""
    said = [os.environ.get(name, "") for name in NAMES]
    rank, size = map(whole_number, said[:2])
    if rank is None or size is None or not all(said):
        return ALONE
    return Launch(rank, size, whole_number(os.environ.get("LOCAL_RANK", "")) or 0)


def started_by_attn() -> bool:
    return STARTED in os.environ


def is_first_rank() -> bool:
    return read_launch().first


def environment_without_launch(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that is started here and is none of the ranks."""
    return {
        name: value
        for name, value in environment.items()
        if name not in (*OWN, STARTED) and not name.startswith(("TORCHELASTIC_", "TORCH_NCCL_"))
    }
