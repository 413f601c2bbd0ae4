"""Local files: files and directories that file URLs name, and files that this package writes."""
