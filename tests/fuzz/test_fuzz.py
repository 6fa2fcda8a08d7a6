"""A fixed part of the campaign, in every run of the tests; `campaign.py` runs as many as one likes."""

from pathlib import Path

import pytest
from warm import Warm, environment

CAMPAIGN = "import sys; from fuzz.campaign import main; sys.exit(main())"
WORDS = ("--cases", "40", "--seed", "1", "--patience", "60")


@pytest.mark.slow
def test_no_broken_input_does_harm(tmp_path: Path) -> None:
    """In a process of its own, which forks before it has any threads."""
    campaign = Warm(CAMPAIGN, WORDS, environment(), tmp_path)
    out, err = campaign.communicate()
    assert campaign.returncode == 0, out + err
