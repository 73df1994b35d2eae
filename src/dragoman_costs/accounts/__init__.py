"""Cloud accounts: what is billed, where its exports lie, and the credential that reads them."""
