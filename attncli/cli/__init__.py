"""The command line: thin commands that wire source → study → report → writer."""
