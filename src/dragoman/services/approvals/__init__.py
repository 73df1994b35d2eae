"""Consent to what must not be done without it: bound to what was shown, decided by others, used once."""
