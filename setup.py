"""The one-pass library: plain C that Python loads by ctypes, so one wheel of a platform is for every Python.

It is optional: without a compiler the package installs all the same. ATTN_PURE_WHEEL=1 leaves it out on purpose, for the
wheel of platforms that have none of their own. All else is in pyproject.toml.
"""

import os

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

LIBRARY = Extension(
    "attncli.capture.one_pass._one_pass",
    ["attncli/capture/one_pass/one_pass.c"],
    extra_compile_args=["-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"],
    optional=True,
)


class PlainLibrary(build_ext):
    """Names the library without a Python version, and looks for no Python module in it."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + (".pyd" if os.name == "nt" else ".so")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return ["instructions", "scratch_floats", "attend"]


class PlatformWheel(bdist_wheel):
    """Names no Python version either."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[] if os.environ.get("ATTN_PURE_WHEEL") else [LIBRARY],
    cmdclass={"build_ext": PlainLibrary, "bdist_wheel": PlatformWheel},
)
