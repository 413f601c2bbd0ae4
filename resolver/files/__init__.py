"""What is on this machine's disks: files and directories that URLs name, and files that we write."""
