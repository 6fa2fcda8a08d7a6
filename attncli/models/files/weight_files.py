"""Find the weight files of a model folder: one, or the shards that an index names; read their bytes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError, list_first_names
from attncli.io.json_files import read_json
from attncli.io.safetensors_arrays import read_byte_ranges
from attncli.io.safetensors_headers import TensorOffset, read_tensor_offsets
from attncli.models.files.weight_hashing import CHUNK, WeightBytes

ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLE, PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
NOT_WEIGHTS = ("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt")
"""Files that a trainer saves along with the weights."""


class WeightFileLayout(NamedTuple):
    """The file names of one way of saving."""

    whole: str
    index_name: str


SAFETENSORS, PICKLED = WeightFileLayout(ONE_FILE, INDEX), WeightFileLayout(PICKLE, PICKLE_INDEX)


def find_weight_files(folder: Path) -> list[Path]:
    """Find the one weight file, or the shards that the index names."""
    found = list_weight_files_of_layout(folder, SAFETENSORS)
    if found:
        return found
    pickles = find_pickled_weights(folder)
    if pickles:
        raise InputError(
            f"{folder} has its weights in {pickles[0]}, a pickle, which can run any code when read: "
            "save the model again with safe_serialization (model.safetensors)."
        )
    refuse_gguf(folder)
    raise InputError(f"{folder} has neither {ONE_FILE} nor {INDEX}: give a saved model's folder.")


def list_pickled_weights_if_allowed(folder: Path, allow_pickle: bool) -> list[Path]:
    """Choose pickles: None where there are safetensors; otherwise only if the user allows it."""
    found = [] if has_safetensors_files(folder) else list_weight_files_of_layout(folder, PICKLED)
    if found and not allow_pickle:
        raise InputError(
            f"{folder} has its weights in {found[0].name}, a pickle: `allow_pickle=True` reads its tensors and nothing else, "
            "or save the model again as safetensors."
        )
    return found


def refuse_unreadable_weights(folder: Path, allow_pickle: bool) -> None:
    """Refuse what names and headers of the files show to be unreadable, before reading a tensor."""
    if not list_pickled_weights_if_allowed(folder, allow_pickle):
        read_safetensors_headers(find_weight_files(folder))


def describe_unread_shards(folder: Path) -> str | None:
    """Describe shards next to a whole file, which is the one that transformers reads too."""
    if all((folder / name).is_file() for name in SAFETENSORS):
        return (
            f"{folder} has both {ONE_FILE} and {INDEX}: {ONE_FILE} is read, and the shards are not."
        )
    return None


def refuse_gguf(path: Path) -> None:
    """Refuse GGUF, llama.cpp's format: its weights are quantised, renamed and reordered."""
    if path.suffix.lower() == ".gguf" or (path.is_dir() and any(path.glob("*.gguf"))):
        raise InputError(
            f"{path} is GGUF, llama.cpp's format, which is not read: give the safetensors checkpoint it was made from."
        )


def find_pickled_weights(folder: Path) -> list[str]:
    found = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
    return [name for name in found if name not in NOT_WEIGHTS]


def list_weight_files_of_layout(folder: Path, layout: WeightFileLayout) -> list[Path]:
    """The layout's files in reading order; none where the folder has neither its file nor its index."""
    if (folder / layout.whole).is_file():
        return [folder / layout.whole]
    if not (folder / layout.index_name).is_file():
        return []
    shards = sorted(set(read_shard_index(folder / layout.index_name).values()))
    missing = [name for name in shards if not (folder / name).is_file()]
    if missing or not shards:
        raise InputError(
            f"{folder} lacks {list_first_names(missing) or 'all shards'}, which {layout.index_name} names."
        )
    return [folder / name for name in shards]


def read_shard_index(index: Path) -> Mapping[str, str]:
    """Read the index: which shard holds which tensor; all shards must be in the folder itself."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError(f"{index} has no weight_map: it is no index of shards.")
    for shard in weight_map.values():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise InputError(f"{index} names a shard that is no file in its folder: {shard!r}.")
    return weight_map


def read_safetensors_headers(files: Sequence[Path]) -> dict[str, TensorOffset]:
    """Read all tensors' headers by name; refuse one in two shards, or in another shard than the index says."""
    places: dict[str, TensorOffset] = {}
    for path in files:
        found = read_tensor_offsets(path)
        for name in places.keys() & found.keys():
            raise InputError(f"{path} and {places[name].path.name} both hold a tensor {name}.")
        places |= found
    index = files[0].parent / INDEX
    if files[0].name != ONE_FILE:
        refuse_mismatched_index(index, places)
    return places


def refuse_mismatched_index(index: Path, places: Mapping[str, TensorOffset]) -> None:
    """Refuse an index and shards that disagree about a tensor."""
    weight_map = read_shard_index(index)
    for name in sorted(weight_map.keys() | places.keys()):
        holder = places[name].path.name if name in places else "no shard"
        if weight_map.get(name) != holder:
            where = (
                f"puts {name} in {weight_map[name]}"
                if name in weight_map
                else f"does not name {name}"
            )
            raise InputError(
                f"{index} {where}, but {holder} holds it: the shards are of another model."
            )


def has_safetensors_files(folder: Path) -> bool:
    return any(folder.glob("*.safetensors")) or any(folder.glob("*.safetensors.index.json"))


def iter_stored_weights(places: Mapping[str, TensorOffset]) -> Iterator[WeightBytes]:
    """Iterate over the tensors of safetensors files; none is read whole or mapped into memory."""
    for name, place in sorted(places.items()):
        yield WeightBytes(
            str(place.path), name, place.dtype, place.shape, read_tensor_in_chunks(place)
        )


def read_tensor_in_chunks(place: TensorOffset) -> Iterator[NDArray[np.uint8]]:
    """Read a tensor's bytes in chunks; each chunk overwrites the one before."""
    room = np.empty(min(CHUNK, place.size), np.uint8)
    for start in range(0, place.size, CHUNK):
        chunk = room[: place.size - start]
        read_byte_ranges(place.path, [place.offset + start], chunk[None])
        yield chunk
