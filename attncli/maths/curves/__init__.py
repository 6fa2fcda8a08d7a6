"""Which laws curves follow, told from few points, and how fast they move.

convergence   the order of convergence
decay_laws    which law a curve of log10 r follows, and where
regime        the same in words
depth_growth  by which law a size grows with depth
intervals     whether the mean of a few numbers is clear of nothing
growth        how a width grows with the length
laws          such laws as numbers, for whoever draws them
slopes        straight lines through a few measurements
"""
