"""The settings of costs: DRAGOMAN_COSTS__*."""

from pydantic import Field

from dragoman.infra.config import Section
from dragoman.infra.values import Directory, Words


class CostSettings(Section):
    """Limits of imports and queries."""

    max_import_bytes: int = Field(
        4_294_967_296, ge=1024, description="The most that a billing export may take once it is unpacked."
    )
    max_bad_rows_percent: float = Field(
        10,
        ge=0,
        le=100,
        description="An import with a greater share of rows that cannot be read fails and shows nothing.",
    )
    import_memory_bytes: int = Field(
        1_073_741_824,
        ge=268_435_456,
        description="The memory that reading one billing export may use; then it uses the disk.",
    )
    import_timeout_s: int = Field(3_600, ge=10, description="An import that takes longer fails.")
    import_dirs: Words = Field(
        default_factory=list[str],
        description="Directories with billing exports on the server, with commas between them; a tenant reads those "
        "below the directory of its slug there.",
    )
    max_query_rows: int = Field(
        5_000_000,
        ge=1_000,
        description="The most rows that a cost query may read; one that would read more is refused.",
    )
    env_prefix: str = Field(
        "CLOUD_",
        pattern=r"^([A-Z][A-Z0-9_]*_)?$",
        description="Tenants may name environment variables that begin with this, their slug and two underscores "
        "(`CLOUD_ACME__AWS`) as credentials of cloud accounts; empty: none.",
    )
    credentials_dir: Directory | None = Field(
        None,
        description="Tenants may name files below `<this>/<their slug>/` as credentials of cloud accounts; "
        "unset: none.",
    )
    query_timeout_s: float = Field(
        15.0, gt=0.0, le=25.0, description="The longest that a statement of a cost query may take."
    )
    sync_s: int = Field(
        86_400, ge=0, description="Cloud accounts with an address of exports are synced so often; 0: only when asked."
    )
