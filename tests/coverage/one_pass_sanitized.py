"""The one-pass library under the address and the undefined-behaviour sanitizer, on the sizes and cases of its tests.

    python tests/coverage/one_pass_sanitized.py

Odd sizes (1, 2, 63, 64, 65, 200 tokens; 1 and 3 heads; width 1, 80, 576), drawn cases against float64, and a strip that
shrinks, each for all instructions that this processor has. It takes about a minute, and needs gcc with libasan.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from one_pass import COMPILER, MORE_FLAGS, ROOT

FLAGS = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
CASES = "odd_sizes or covered_equals or strips_shrink or same_bits"


def main() -> int:
    assert COMPILER is not None, "no C compiler here"
    found = subprocess.run(
        [COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    sanitizer = found.stdout.strip()
    assert Path(sanitizer).is_absolute(), "no address sanitizer here"
    environment = {
        **os.environ,
        MORE_FLAGS: FLAGS,
        "LD_PRELOAD": sanitizer,  # before Python, which is not compiled with it
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    }
    tests = ["tests/capture/test_one_pass.py", "-k", CASES]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-s", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
