"""Two points that walk along a circle: one layer, taught the next step, is applied again and again to its own output.

arcs            where the points are at every step, and the pairs that are taught
design          what a network is made of: the four variants as they are named, and as the released script has them
circle_network  that network with the weights of several seeds at once, and how it is trained
first_circle    one of them while it is trained, as it can be watched
experiment      how long they are trained, and how often applied
recurrence      the trained network applied again and again, residuals far below the smallest float included
"""
