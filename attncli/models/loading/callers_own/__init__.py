"""Modules that a caller holds, in this process or in a training: looked at where they are, and left as they were.

unwrapped  a model as it is trained: out of what it is wrapped in
as_it_was  what running a model changes of it, put back
live       a module of the caller's own, measured in place
resting    a model at rest, for good or between two steps of its training
"""
