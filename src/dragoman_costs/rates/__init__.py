"""Rates of currencies, as the tenant sets them: for a day or for a month."""
