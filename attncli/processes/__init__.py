"""One command in several processes, as torchrun or attn itself starts them: each takes its share, all end with the same result.

stderr        sentences for people, on stderr
collectives   what every rank hands to all others; a rank that fails or is lost ends the others too
spawn         processes that attn starts by itself
signals       what is said where torchrun ends the processes
resume_cache  results of a loop that was not finished, kept beside the report that it was for
work_sharing  a loop whose items are divided over the ranks and whose results come back in order
runs          attn run by attn, each in a process of its own
jobs          such a run as a value that travels, and what a worker makes of it
engines       what does many jobs at a time, one engine per file

Every rank runs the same command on the same files. Only the first one is heard: it alone prints and writes.
"""
