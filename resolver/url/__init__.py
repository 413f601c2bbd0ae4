"""URL parsing, building and extraction, and the registry of schemes."""
