"""A fixed part of the campaign, in every run of the tests; `campaign.py` runs as many as one likes."""

import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parent / "campaign.py"


@pytest.mark.slow
def test_no_broken_input_does_harm() -> None:
    """In a process of its own, which forks before it has any threads."""
    done = subprocess.run(
        [sys.executable, str(CAMPAIGN), "--cases", "150", "--seed", "1", "--patience", "60"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
