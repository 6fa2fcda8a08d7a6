"""`attn list`: names of metrics, patterns, model types and more.

registry_catalogue  the entries of each list, as records
command             `attn list`

    >>> from attncli.commands.utilities.list.registry_catalogue import list_catalogue_entries
    >>> [entry["name"] for entry in list_catalogue_entries("variants")][:3]
    ['SAN', 'SAN+MLP', 'SAN+skip']
"""
