"""Two points that walk along a circle: one layer, trained on the next step, is applied again and again to its
own output.

train_and_measure              the report
iterated_network_measurements  the runs
report                         their rows and sentences
arc_positions                  the two arcs: positions of the pair of points at every step
circle_network                 the network with the weights of several seeds at once, and its training
network_design                 the parts of a network: a layer between a linear map into its width and one back to the plane
experiment_settings            how long the networks are trained, and how often each of them is applied
network_for_training_monitor   the network of the first seed with its attention as a module, so that capture works on it
iterated_predictions           a trained network applied again and again to its own output, in split form
run                            from the options of `attn reproduce circle` to a study
command                        `attn reproduce circle`
options                        options of `attn reproduce circle`
"""
