"""Inspecting a model imports nothing that switches its parts off or splits its stream."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import attncli
attncli.inspect_model("random:bert?tiny", tokens=8)
names = ("attncli.ablation", "attncli.tensor_subclasses")
print(" ".join(sorted(name for name in sys.modules if name.startswith(names))))
"""


@pytest.mark.slow
def test_inspecting_imports_nothing_of_ablation() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)  # fmt: skip
    assert not done.stdout.split()
