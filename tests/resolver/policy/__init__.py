"""Tests of the safety policy: one file a module, most of them tables of URLs and verdicts."""
