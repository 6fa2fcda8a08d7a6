"""One command in several processes, started by torchrun or by attn: each does its share, all end
with the same result.

rank_communication      exchange objects between ranks; a rank that fails or is lost ends the others too
rank_process_launch     processes that attn starts by itself
termination_signals     a message where torchrun ends the processes
resume_cache            results of an unfinished loop, saved next to its report
divide_work_over_ranks  a loop whose items are divided over the ranks and whose results are gathered in order
command_in_subprocess   attn run by attn, each in a process of its own
job_sent_to_worker      such a run as a value that can be sent to a worker, and its execution
engines                 run many jobs at a time, one engine per file

Every rank runs the same command on the same files. Only the first one prints and writes.

    >>> from attncli.processes.divide_work_over_ranks import list_item_indices_of_rank
    >>> list_item_indices_of_rank(["a", "b", "c"])
    range(0, 3)
"""
