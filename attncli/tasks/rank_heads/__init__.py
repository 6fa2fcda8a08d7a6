"""The nearest of a few tokens on the sphere, by one layer of heads whose queries and keys have a given rank.

nearest_token  the target, and questions about it
head_layer     the layer with the weights of several seeds at once, and how it is trained
head_plan      which layers, how long they are trained, and on what
"""
