"""Suites that ask a GPU: its numbers, its counters, and what compute-sanitizer says."""
