"""Options for loading a model, checked before any heavy import."""

from dataclasses import dataclass

from attncli.errors import make_unknown_name_error
from attncli.models.files.model_folder import FetchSettings

DTYPES = ("float64", "float32", "bfloat16", "float16")
"""The dtypes that a model can run in."""
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""accelerate's names for ways to fill several devices."""


@dataclass(frozen=True, slots=True)
class LoadOptions(FetchSettings):
    """How a model is loaded; the defaults trust nothing."""

    dtype: str | None = None
    """None: the file's own dtype, but float32 for float16 on a CPU."""
    half: bool = True
    """Whether the file's own dtype may be half precision; otherwise float32 is used."""
    device: str = "cpu"
    device_map: str | None = None
    tensor_parallel: bool = False
    """Split every layer over the processes."""
    allow_missing: bool = False
    seed: int = 0
    """Seed of random models, and of weights that `allow_missing` leaves random."""

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise make_unknown_name_error("dtype", self.dtype, DTYPES)
        if self.device_map is not None and self.device_map not in MAPS:
            raise make_unknown_name_error("device map", self.device_map, MAPS)
