"""From the files of a directory to the state of a journal."""
