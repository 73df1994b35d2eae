"""Credentials become a Caller; policies say what a Caller may do.

Nothing is re-exported: the command line makes tokens without loading what the server needs to check them.
"""
