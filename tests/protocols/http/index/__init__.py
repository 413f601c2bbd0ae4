"""Tests of `protocols.http.index`."""
