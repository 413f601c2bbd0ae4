"""Retrievals, from a checked URL to a finished value: redirects, retries, limits, saving, verification."""
