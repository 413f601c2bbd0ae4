"""Retrievals from a checked URL to a completed response: redirects, retries, saving and verification."""
