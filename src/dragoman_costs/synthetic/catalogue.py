"""What clouds sell, as far as a made-up company buys it: list prices near those of 2026."""

from dataclasses import dataclass
from typing import Final

from dragoman_costs.synthetic.estate import DemoAccount, SubAccount

AWS: Final = DemoAccount(
    "aws", "100200300400", "Demo: Shop on AWS (synthetic)", "AWS", "Amazon Web Services, Inc.", "USD",
    (SubAccount("111122223333", "shop-production"), SubAccount("444455556666", "shop-staging"),
     SubAccount("777788889999", "data-platform")),
)  # fmt: skip
AZURE: Final = DemoAccount(
    "azure", "0d3e0c7a-5e1f-4b62-9c1d-7f2a64b0a001", "Demo: ERP on Azure (synthetic)", "Microsoft",
    "Microsoft Corporation", "EUR",
    (SubAccount("rg-erp-prod", "erp-production"), SubAccount("rg-erp-test", "erp-test")),
)  # fmt: skip
GCP: Final = DemoAccount(
    "gcp", "demo-analytics", "Demo: Analytics on Google Cloud (synthetic)", "Google Cloud", "Google LLC", "USD",
    (SubAccount("analytics-prod", "analytics-prod"), SubAccount("analytics-dev", "analytics-dev")),
)  # fmt: skip
KUBERNETES: Final = DemoAccount(
    "kubernetes", "demo-cluster", "Demo: Shared cluster (synthetic)", "Kubernetes", "Demo Platform Team", "USD",
    (SubAccount("checkout", "checkout"), SubAccount("search", "search"), SubAccount("batch", "batch")),
)  # fmt: skip
ACCOUNTS: Final = (AWS, AZURE, GCP, KUBERNETES)
TEAMS: Final = ("payments", "search", "platform", "data", "mobile")


@dataclass(frozen=True, slots=True)
class Machines:
    """How a cloud sells machines and what belongs to them."""

    account: DemoAccount
    service: str
    disk_service: str
    object_service: str
    region: str
    prefix: str
    # Machine type and price of an hour: now, of a generation before, and of twice the size.
    usual: tuple[tuple[str, float], ...]
    older: tuple[tuple[str, float], ...]
    volume_type: str
    volume_price: float
    snapshot_price: float
    standard_class: str
    object_price: float


MACHINES: Final = (
    Machines(
        AWS, "Amazon Elastic Compute Cloud", "Amazon Elastic Block Store", "Amazon Simple Storage Service",
        "eu-west-1", "i-0",
        (("m7g.large", 0.0908), ("m7g.xlarge", 0.1816), ("c7g.2xlarge", 0.31), ("r7g.xlarge", 0.2392)),
        (("m4.xlarge", 0.222), ("m4.2xlarge", 0.444), ("c4.2xlarge", 0.453), ("r4.xlarge", 0.296)),
        "gp3", 0.088, 0.05, "STANDARD", 0.023,
    ),
    Machines(
        AZURE, "Virtual Machines", "Storage", "Storage Accounts", "westeurope", "vm-",
        (("Standard_D4ps_v5", 0.17), ("Standard_D8ps_v5", 0.34), ("Standard_E4ps_v5", 0.22)),
        (("Standard_D4_v3", 0.222), ("Standard_D8_v3", 0.444), ("Standard_D4s_v3", 0.222)),
        "Premium_LRS", 0.12, 0.05, "Hot", 0.0184,
    ),
    Machines(
        GCP, "Compute Engine", "Persistent Disk", "Cloud Storage", "europe-west4", "gce-",
        (("t2a-standard-4", 0.17), ("t2a-standard-8", 0.34), ("t2a-standard-2", 0.085)),
        (("n1-standard-4", 0.209), ("n1-standard-8", 0.418), ("n1-highmem-4", 0.26)),
        "pd-ssd", 0.17, 0.026, "STANDARD", 0.02,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metered:
    """A service that is paid by use: unit, price, usual quantity a day, share on weekends, daily growth, noise."""

    account: DemoAccount
    service: str
    category: str
    type: str
    unit: str
    price: float
    quantity: float
    weekend: float
    growth: float
    noise: float
    resources: int


METERED: Final = (
    Metered(AWS, "Amazon Relational Database Service", "Databases", "DB instance", "Hours", 0.42, 24, 1, 0, 0, 6),
    Metered(AWS, "AWS Lambda", "Compute", "Function", "GB-Seconds", 0.0000166667, 700_000, 0.7, 0.002, 0.05, 8),
    Metered(AWS, "Amazon CloudFront", "Networking", "Distribution", "GB", 0.085, 420, 1.25, 0.0015, 0.05, 3),
    Metered(AWS, "AWS Data Transfer", "Networking", "Gateway", "GB", 0.09, 300, 0.8, 0.001, 0.06, 4),
    Metered(AWS, "Amazon CloudWatch", "Management and Governance", "Log group", "GB", 0.57, 22, 0.8, 0.001, 0.05, 6),
    Metered(AWS, "Amazon DynamoDB", "Databases", "Table", "Request units", 0.00000125, 11_000_000, 0.9, 0.001, 0.04, 4),
    Metered(AWS, "Amazon Elastic Kubernetes Service", "Compute", "Cluster", "Hours", 0.10, 24, 1, 0, 0, 3),
    Metered(AZURE, "Azure SQL Database", "Databases", "Database", "Hours", 0.51, 24, 1, 0, 0, 4),
    Metered(AZURE, "Bandwidth", "Networking", "Gateway", "GB", 0.08, 260, 0.45, 0.0005, 0.06, 3),
    Metered(AZURE, "Azure Monitor", "Management and Governance", "Workspace", "GB", 2.3, 6, 0.6, 0.001, 0.06, 3),
    Metered(AZURE, "Azure Functions", "Compute", "Function app", "GB-Seconds", 0.000016, 900_000, 0.4, 0.001, 0.05, 3),
    Metered(GCP, "BigQuery", "Analytics", "Project", "TiB", 6.25, 5, 0.35, 0.001, 0.08, 4),
    Metered(GCP, "Cloud Run", "Compute", "Service", "vCPU-Seconds", 0.000024, 700_000, 0.8, 0.002, 0.05, 5),
    Metered(GCP, "Cloud Logging", "Management and Governance", "Bucket", "GiB", 0.5, 25, 0.7, 0.001, 0.05, 3),
    Metered(GCP, "Networking", "Networking", "Gateway", "GiB", 0.085, 180, 0.8, 0.001, 0.06, 3),
)  # fmt: skip
WORKLOADS: Final = (("checkout-api", 6, 58), ("cart", 4, 52), ("search-index", 12, 61), ("search-api", 8, 55),
                    ("nightly-export", 5, 63), ("etl", 10, 57))  # fmt: skip
