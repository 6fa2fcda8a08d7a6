"""Width 1, decided: keys are places on a line, a query is a sign and a steepness.

At width 1 the logits of row i are q_i k_j. With s_i = sign q_i and g_i = 1 / |q_i| whatever is wanted of a row says

    s_i (k_x - k_y) ≤ U_i(x, y) g_i        for keys x, y that query i sees

and a limit B on the logits says it too, with the ground (k = 0) as one of the two keys and U = B. Signs are forced by
pairs of rows; given the signs, all is linear in (k, g). Our own derivation, checked against all orders of the keys.

logit_constraints              what is wanted of every row: the bounds U
query_signs                    which rows pull the same way, and what contradicts itself
nested_supports                equal weights and no mask: the least gaps between the keys, in closed form
key_position_linear_programme  all else: a linear programme that holds the differences which bite
logit_growth_over_rows         rows that each need far larger logits than the row before: the programme in units of its own
infeasibility_proof            proofs in whole numbers, and their check
width_one_decision             yes, no, or not decided, and the least logits

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from attncli.maths.head_capacity.head_width_one import logit_constraints, width_one_decision
    >>> tolerances = logit_constraints.Tolerances(log_ratio=0.1, log_off=-5.0, variation=0.1)
    >>> wanted = logit_constraints.compute_necessary_logit_constraints(csr_array(np.eye(3)), False, tolerances)
    >>> width_one_decision.decide_width_one(wanted, budget=60.0).possible
    False
"""
