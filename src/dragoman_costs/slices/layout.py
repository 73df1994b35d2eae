"""How rows and sums lie in the files between DuckDB and PostgreSQL.

The order of columns is that of the temporary tables in `store_loading.py`, which begin with the billing period.
"""

from typing import Final

# Characters that stand in no text of a bill, so that next to nothing has to be quoted.
DELIMITER, QUOTE, NULL = "\x01", "\x02", "\\N"
ROLL_UPS: Final = ("cost_services_daily", "cost_daily", "cost_tags_daily", "cost_resources_daily")
