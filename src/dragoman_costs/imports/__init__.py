"""Billing exports of FOCUS: sent, read, and imported as tasks."""
