"""From SOURCE and the network options to networks."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.cli.options import NetworkOptions, RunOptions
from attncli.errors import InputError, UsageError
from attncli.networks.spec import NetworkSpec, option
from attncli.networks.weights import GeneratedNetwork

if TYPE_CHECKING:
    from attncli.networks.files import FileNetwork

SYNTHETIC: Mapping[str, Any] = {"kind": "synthetic"}


def spec_from(options: NetworkOptions, without: str | None = None) -> NetworkSpec:
    """The network that the options describe; a swept parameter cannot be fixed as well."""
    given: dict[str, Any] = options.given()
    if without is not None and without.replace("-", "_") in given:
        raise UsageError(
            f"--{without} is what --sweep varies: leave it out.",
            idle=[f"--{without}"],
            because=["--sweep"],
        )
    return NetworkSpec(**given)


def generated(spec: NetworkSpec, run: RunOptions) -> Sequence[GeneratedNetwork]:
    return [GeneratedNetwork(spec, seed) for seed in run.all_seeds()]


def from_file(source: str, refused: Mapping[str, Any]) -> "FileNetwork":
    """A saved network; it fixes its own sizes, kinds and seed, so options that would change them are refused."""
    path = Path(source)
    if not path.is_file():
        raise InputError(
            f"there is no file {source}: give a network written by `attn generate network -o FILE`, "
            "or nothing for the built-in default."
        )
    if refused:
        names = list(map(option, refused))
        raise UsageError(f"{', '.join(names)} cannot be changed: {source} fixes it.", idle=names)
    from attncli.networks.files import FileNetwork

    return FileNetwork(path)


def identity(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"kind": "network file", "path": path, "sha256": digest}
