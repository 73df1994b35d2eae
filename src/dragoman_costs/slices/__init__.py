"""Billing data by slice: the rows of one billing account in one billing period, replaced as a whole."""
