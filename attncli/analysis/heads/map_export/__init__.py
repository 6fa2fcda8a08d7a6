"""Attention maps collected while a model runs, for files and pages.

collected_maps  maps of chosen heads, for a file or a picture
thumbnails      maps small enough for a page
map_metadata    what maps do not show
"""
