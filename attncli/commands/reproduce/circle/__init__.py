"""Two points that walk along a circle: one layer, taught the next step, is applied again and again to its own output.

learned_circle  the report
recurrences     the runs
report          their rows and sentences
arcs            the two arcs: places of the pair of points at every step
circle_network  the network with the weights of several seeds at once, as they differ in nothing else, and its training
design          what a network is made of: a layer between a linear map into its width and one back to the plane
experiment      how long the networks are trained, and how often each of them is applied
first_circle    the network of the first seed while it is trained, with its attention as a module that can be watched
recurrence      a trained network applied again and again to its own output, in split form
run             from the options of `attn reproduce circle` to a study
command         `attn reproduce circle`
options         options of `attn reproduce circle`
"""
