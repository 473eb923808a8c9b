"""Suites that ask a GPU; the package's table says what each compares.

`device`, `counters`, `sanitizer`, `shipped` and `opinfo` are suites, `access_patterns` the kernels that `counters` adds to the
chapters', `worker` what runs in a process of its own on the GPU.
"""
