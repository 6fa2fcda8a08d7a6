"""Attention maps collected while a model runs, for files and pages.

collected_maps            maps of chosen heads, for a file or a plot
attention_map_thumbnails  maps small enough for a page
map_metadata              results of the run that maps do not contain
"""
