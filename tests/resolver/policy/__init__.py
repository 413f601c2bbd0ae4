"""Tests of the safety policy: one file per module, most of them tables of URLs and verdicts."""
