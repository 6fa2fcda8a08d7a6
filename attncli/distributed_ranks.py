"""This process's rank among those launched together, read from the environment alone, so that it costs nothing."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from attncli.resource_limits import parse_whole_number

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables that torchrun sets, and torch.distributed requires under other launchers."""
OWN = (
    *NAMES,
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
)
STARTED = "ATTN_STARTED"
"""Set where attn itself has started the processes, and reports those that are lost."""


class DistributedLaunch(NamedTuple):
    rank: int
    size: int
    local_rank: int
    """The rank among the processes of this machine."""

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    @property
    def is_distributed(self) -> bool:
        return self.size > 1


ALONE = DistributedLaunch(0, 1, 0)


def read_launch_environment() -> DistributedLaunch:
    """Read the launch: one process among several if all their rendezvous variables are set; else a single one."""
    values = [os.environ.get(name, "") for name in NAMES]
    rank, size = map(parse_whole_number, values[:2])
    if rank is None or size is None or not all(values):
        return ALONE
    return DistributedLaunch(rank, size, parse_whole_number(os.environ.get("LOCAL_RANK", "")) or 0)


def is_started_by_attn() -> bool:
    return STARTED in os.environ


def is_first_rank() -> bool:
    return read_launch_environment().is_rank_zero


def remove_rank_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that is started here and is none of the ranks."""
    return {
        name: value
        for name, value in environment.items()
        if name not in (*OWN, STARTED) and not name.startswith(("TORCHELASTIC_", "TORCH_NCCL_"))
    }
