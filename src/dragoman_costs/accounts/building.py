"""Puts cloud accounts together."""

from dragoman.infra.config import read_environment
from dragoman.infra.ids import new_id
from dragoman.plugin import Platform, Vertical
from dragoman_costs.accounts import operations as o
from dragoman_costs.accounts.credentials import Credentials
from dragoman_costs.accounts.service import AccountService
from dragoman_costs.accounts.store import AccountStore
from dragoman_costs.settings import CostSettings


def build_accounts(platform: Platform) -> Vertical:
    """Bind the operations on cloud accounts."""
    settings = platform.section(CostSettings)
    credentials = Credentials(
        platform.vault,
        env_prefix=settings.env_prefix,
        directory=settings.credentials_dir,
        environment=read_environment,
    )
    accounts = AccountService(AccountStore(platform.db), credentials, new_id=new_id)
    platform.handlers.add(o.CREATE, accounts.create, prepare=accounts.check_new)
    platform.handlers.add(o.LIST, accounts.list)
    platform.handlers.add(o.GET, accounts.get)
    platform.handlers.add(o.UPDATE, accounts.update, prepare=accounts.check_change)
    platform.handlers.add(o.DELETE, accounts.delete)
    return Vertical()
