"""Local files: the files and directories that file URLs name, and the files that this package writes."""
