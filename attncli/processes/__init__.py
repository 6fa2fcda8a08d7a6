"""One command in several processes, as torchrun or attn itself starts them: each takes its share, all end with the same result.

launch          who this process is among the others, from the environment alone: no torch
saying          sentences for people, on stderr
exchange        what every rank hands to all others; a rank that fails or is lost ends the others too
started         processes that attn starts by itself
ended           what is said where torchrun ends the processes
finished_parts  results of a loop that was not finished, kept beside the report that it was for
sharing         a loop whose items are divided over the ranks and whose results come back in order
runs            attn run by attn, each in a process of its own
jobs            such a run as a value that travels, and what a worker makes of it
engines         what does many jobs at a time, one engine per file

Every rank runs the same command on the same files. Only the first one is heard: it alone prints and writes.
"""
