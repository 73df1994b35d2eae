"""One look at the spend of a tenant: totals beside the time before, trend, forecast, and what moved."""
