"""The HTML page: what stands in it, what its script draws, and the numbers that travel in it.

document    the page put together, and the rules that keep everything from outside inert
prose       the answer, findings, verdicts and provenance as HTML
tables      the views of a report as HTML tables
pictures    which picture each view gets, and the curves
comparison  two reports as curves
law_lines   fitted laws as curves
tiles       maps in 8 bits
columns     rows as columns of bytes
byte_store  columns and what describes them, compressed into text
assets      the script and the style, of `scripts/` and `styles/`

The script only draws and sorts: what is said in words and what the tables of the views hold is there without it.
"""
