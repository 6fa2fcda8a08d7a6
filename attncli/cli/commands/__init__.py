"""One command a file: its examples, and a shell around a question; those that run other commands are whole here."""
