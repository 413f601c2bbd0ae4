"""Text for terminals: escape functions, a filter for telnet output, and prompts of telnet sessions."""
