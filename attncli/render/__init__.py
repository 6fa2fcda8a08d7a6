"""Formats, one per file: a function of the report that returns text or a rich renderable and writes nothing.

To add one, add a file `attncli/render/NAME.py` with a function `NAME(report)`.
"""

from attncli.registry import Registry

FORMATS = Registry("format", "attncli.render")
