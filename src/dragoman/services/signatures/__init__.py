"""Signatures: who is asked to sign which document, by which provider, and whether it was signed."""
