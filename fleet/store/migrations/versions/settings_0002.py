"""Environments know what the plan asked for: every run is to be read again."""

from __future__ import annotations

from alembic import op
from sqlalchemy import delete, table

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for name in ("result", "outcome", "run", "environment"):
        op.execute(delete(table(name)))
