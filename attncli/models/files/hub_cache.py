"""A model of the hub as a folder in the local cache: config, safetensors and tokenizer files, nothing else."""

import errno
import os
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attncli.errors import InputError, LimitError, shorten_error_text
from attncli.model_and_file_sources import Source, find_similarly_named_folder
from attncli.models.files.weight_files import has_safetensors_files

SMALL = (
    "config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
SAFE = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
PROXIES = re.compile("https?_proxy|all_proxy", re.IGNORECASE)
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin")


def fetch_hub_model(
    source: Source, revision: str | None, offline: bool, allow_pickle: bool, trust_remote_code: bool
) -> Path:
    """The snapshot's folder; its name is the commit."""
    patterns = (*SMALL, *SAFE, *(("*.py",) if trust_remote_code else ()))
    folder = download_snapshot(source, revision, offline, patterns)
    if allow_pickle and not has_safetensors_files(folder):
        return download_snapshot(source, revision, offline, (*patterns, *PICKLED))
    return folder


def download_snapshot(
    source: Source, revision: str | None, offline: bool, patterns: tuple[str, ...]
) -> Path:
    """Download the snapshot, or find it in the cache; every failure becomes one sentence."""
    name = f"{source.name}@{revision}" if revision else source.name
    local = suggest_local_path(source)
    if is_missing_in_hub_cache(source.name) and (offline or is_hub_unreachable()):
        raise make_not_in_cache_error(name, local, offline)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        IncompleteSnapshotError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(
            snapshot_download(
                source.name,
                revision=revision,
                allow_patterns=list(patterns),
                local_files_only=offline,
            )
        )
    except IncompleteSnapshotError as error:  # perhaps of files not needed here
        return Path(error.snapshot_path)
    except GatedRepoError:
        raise InputError(
            f"{name} is gated: accept its terms on the hub and log in with `hf auth login`."
        ) from None
    except RevisionNotFoundError:
        raise InputError(f"{source.name} has no revision '{revision}' on the hub.") from None
    except RepositoryNotFoundError:
        raise InputError(
            f"the hub knows no {source.name}, or it is private: check the name, log in with `hf auth login`{local}."
        ) from None
    except LocalEntryNotFoundError:
        raise make_not_in_cache_error(name, local, offline) from None
    except HFValidationError as error:
        raise InputError(f"{name} cannot be a hub id: {shorten_error_text(error)}.") from None
    except HfHubHTTPError as error:
        raise InputError(f"{name}: the hub answers {shorten_error_text(error)}.") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise LimitError(
                f"the disk is full while {name} is downloaded: free some space."
            ) from None
        raise InputError(f"{name} cannot be fetched: {shorten_error_text(error)}.") from None


def is_missing_in_hub_cache(name: str) -> bool:
    """Whether the cache has no folder for this name.

    Importing huggingface_hub's client takes longer than all else that a mistyped name costs.
    """
    from huggingface_hub import constants

    return not (Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}").exists()


def is_hub_unreachable() -> bool:
    """Whether the hub's host has no address, as without a network; a proxy might know one."""
    from huggingface_hub import constants

    if any(PROXIES.fullmatch(variable) for variable in os.environ):
        return False
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        return True
    return False


def make_not_in_cache_error(name: str, local: str, offline: bool) -> InputError:
    why = "the hub was not asked (offline)" if offline else "the hub cannot be reached"
    return InputError(
        f"{name} is not in the cache and {why}: give a model's folder, random:ARCH{local}."
    )


def suggest_local_path(source: Source) -> str:
    """Suggest a folder or file of this name, or of almost this name."""
    if source.warnings:
        return f", or ./{source.name} for what lies on this machine"
    near = find_similarly_named_folder(Path(source.name))
    return f", or {near}, which lies on this machine" if near else ""


def is_model_in_hub_cache(name: str) -> bool:
    """Whether any file of the model is in the cache."""
    return any(repository.repo_id == name for repository in list_models_in_hub_cache())


def remove_model_from_hub_cache(name: str) -> None:
    """Remove every revision of the model from the cache."""
    from huggingface_hub import scan_cache_dir

    commits = [
        revision.commit_hash
        for repository in list_models_in_hub_cache()
        if repository.repo_id == name
        for revision in repository.revisions
    ]
    if commits:
        scan_cache_dir().delete_revisions(*commits).execute()


def list_models_in_hub_cache() -> list[Any]:
    """List the models in the cache; none where there is no cache yet."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        return [found for found in scan_cache_dir().repos if found.repo_type == "model"]
    except CacheNotFound:
        return []
