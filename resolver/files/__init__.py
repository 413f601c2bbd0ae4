"""Files of this machine: files and directories that URLs name, and files that this package writes."""
