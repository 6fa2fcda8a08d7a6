"""SOURCE as a folder of files: folders, and hub models in the cache."""

from pathlib import Path

import numpy as np
import pytest
from family_models import saved

from attncli.errors import AttnError, InputError, UsageError
from attncli.head_weights.trained_head import read_head
from attncli.models.files.model_folder import FetchSettings, find_model_folder

CACHED = FetchSettings(offline=True)
COMMIT = "c0ffee" * 6 + "abcd"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with one model in it."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    home = tmp_path / "models--org--name"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(COMMIT)
    saved("bert", home / "snapshots" / COMMIT)
    return home / "snapshots" / COMMIT


def test_a_head_of_a_model_in_the_cache(cached: Path) -> None:
    """The same as from its folder, called by its id."""
    head, same = read_head("org/name", "1.2", CACHED), read_head(str(cached), "1.2")
    np.testing.assert_array_equal(head.w_q, same.w_q)
    assert head.description["folder"] == "org/name"
    assert same.description["folder"] == COMMIT


def test_a_hub_model_says_its_commit(cached: Path) -> None:
    local = find_model_folder("org/name", FetchSettings(offline=True))
    assert local.folder == cached
    assert local.describe_model_source() == {
        "kind": "hub",
        "name": "org/name",
        "revision": None,
        "commit": COMMIT,
    }


def test_a_folder_of_the_same_name_is_not_what_is_meant(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cached / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(cached)
    head = read_head("org/name", "0.0", CACHED)
    assert "./org/name would be" in head.warnings[0]


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("./nowhere", InputError, "there is no folder ./nowhere"),
        ("org/other", InputError, "not in the cache"),
        ("random:bert", UsageError, "no files"),
        ("??", UsageError, "names no model"),
    ],
)
def test_what_is_no_folder(text: str, kind: type[AttnError], says: str, cached: Path) -> None:
    with pytest.raises(kind, match=says) as refused:
        find_model_folder(text, FetchSettings(offline=True))
    assert "\n" not in str(refused.value)
