"""`python tests/uv_pins.py` writes the versions of constraints.txt into pyproject.toml, where uv reads them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT, CONSTRAINTS = ROOT / "pyproject.toml", ROOT / "constraints.txt"


def pins() -> list[str]:
    """`torch==2.13.0` …"""
    return [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]


def with_pins(project: str) -> str:
    listed = "".join(f'    "{pin}",\n' for pin in pins())
    return re.sub(
        r"(constraint-dependencies = \[\n).*?(\]\n)", rf"\1{listed}\2", project, flags=re.DOTALL
    )


if __name__ == "__main__":
    PROJECT.write_text(with_pins(PROJECT.read_text()))
