"""Laws that curves follow, from few points, and how fast they change.

convergence_rates       the order of convergence, and whether a mean rate is distinct from zero
decay_laws_over_layers  which law a curve of log10 r follows, and where
rank_collapse_regime    describe these laws
growth_over_depth       by which law a size grows with depth
width_growth_laws       how a width grows with the length
evaluate_growth_law     such laws as numbers, for plots
straight_line_slopes    straight lines through a few measurements

    >>> from attncli.maths.curve_fits.decay_laws_over_layers import fit_piecewise_law
    >>> [piece.rate for piece in fit_piecewise_law((0.0, -1.0, -2.0, -3.0, -4.0, -5.0)).pieces]
    [-1.0]
"""
