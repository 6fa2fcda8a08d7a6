"""Maps that are kept while a model runs, and what is kept beside them.

kept_maps    maps of chosen heads, for a file or a picture
small_maps   maps small enough for a page
beyond_maps  what maps do not show
"""
