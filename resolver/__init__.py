"""Fetch what URLs locate: one parser, one safety policy, one result type for every scheme of RFC 1738."""
