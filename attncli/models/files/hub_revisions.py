"""List the branches and tags of a hub model, in which training runs save their steps."""

from fnmatch import fnmatchcase
from typing import cast

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from attncli.errors import InputError, shorten_error_text

UNREACHABLE = cast("tuple[type[Exception], ...]", HfHubHTTPError.__bases__)
"""OSError and the base error of the HTTP library, which is another one in each version of huggingface_hub."""


def list_hub_revisions(name: str, pattern: str) -> list[str]:
    """List the matching revisions by the hub's own list: the cache only knows those once fetched."""
    try:
        refs = HfApi().list_repo_refs(name)
    except (HfHubHTTPError, HFValidationError) as error:
        raise InputError(
            f"the hub lists no revisions of {name}: {shorten_error_text(error)}."
        ) from None
    except UNREACHABLE as error:
        raise InputError(
            f"the hub cannot be asked for the revisions of {name}: {shorten_error_text(error)}; name them by `model='{name}@REVISION'`."
        ) from None
    names = [ref.name for ref in (*refs.branches, *refs.tags)]
    found = [one for one in names if fnmatchcase(one, pattern)]
    if not found:
        raise InputError(
            f"{name} has no revision like '{pattern}': it has {shorten_revision_names(names)}."
        )
    return found


def shorten_revision_names(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
