"""One block while it runs: tags on its tensors, and what is kept of its additions and norms.

source_code_locations          where in the model's code an operation is
tensor_tags                    tags of tensors, and the points of the stream
block_run_record               the record of one execution of a block
ablation_policies              which parts of additions, merges and norms are kept
operands_of_sums_and_products  the two sides of a sum or product
tag_propagation                propagate tags from a function's arguments to its results
residual_additions             which additions are skips, which merge parallel branches
torch_function_tracker         the torch-function mode that applies all this
"""
