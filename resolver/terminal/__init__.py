"""Telnet prompts, a filter for telnet output, and escaped text for terminals."""
