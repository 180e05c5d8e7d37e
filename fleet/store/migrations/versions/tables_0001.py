"""The first tables."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, SmallInteger, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_dimensions()
    _create_runs()
    _create_journal()


def _create_dimensions() -> None:
    op.create_table(
        "host",
        Column("id", Integer, primary_key=True),
        Column("alias", Text, unique=True, nullable=False),
    )
    op.create_table(
        "cell",
        Column("id", Integer, primary_key=True),
        Column("cell_id", Text, unique=True, nullable=False),
        Column("model", Text, nullable=False),
        Column("phase", Text, nullable=False),
        Column("precision", Text, nullable=False),
        Column("batch_size", Integer, nullable=False),
        Column("device", Text, nullable=False),
        Column("devices", Integer, nullable=False),
        Column("data_format", Text, nullable=False),
        Column("xla", Boolean, nullable=False),
        Column("optimizer", Text, nullable=False),
        Column("variable_update", Text, nullable=False),
        Column("steps_per_call", Integer, nullable=False),
    )
    op.create_table(
        "environment",
        Column("id", Integer, primary_key=True),
        Column("fingerprint", Text, unique=True, nullable=False),
        Column("product", Text),
        Column("kernel", Text),
        Column("os", Text),
        Column("cpu_model", Text),
        Column("gpu", Text),
        Column("driver", Text),
        Column("image", Text),
        Column("tensorflow", Text),
        Column("fields", Text, nullable=False),
    )


def _create_runs() -> None:
    op.create_table(
        "run",
        Column("id", Integer, primary_key=True),
        Column("run_id", Text, unique=True, nullable=False),
        Column("root", Text, nullable=False),
        Column("stamp", BigInteger, nullable=False),
        Column("created", Text, nullable=False),
        Column("finished", Text, nullable=False),
        Column("suite", Text, nullable=False),
        Column("inventory", Text, nullable=False),
        Column("fleet_version", Text, nullable=False),
        Column("payload_sha256", Text, nullable=False),
        Column("interrupted", Boolean, nullable=False),
        Column("exit_code", SmallInteger, nullable=False),
        Column("hosts_ok", Integer, nullable=False),
        Column("hosts_total", Integer, nullable=False),
        Column("cells_ok", Integer),
        Column("cells_total", Integer, nullable=False),
    )
    op.create_table(
        "outcome",
        Column("run", Integer, primary_key=True, autoincrement=False),
        Column("host", Integer, primary_key=True, autoincrement=False),
        Column("status", Text, nullable=False),
        Column("stage", Text),
        Column("reason", Text),
        Column("job_s", Float),
        Column("protocol", Integer),
        Column("environment", Integer),
    )
    op.create_table(
        "result",
        Column("run", Integer, primary_key=True, autoincrement=False),
        Column("host", Integer, primary_key=True, autoincrement=False),
        Column("cell", Integer, primary_key=True, autoincrement=False),
        Column("status", SmallInteger, nullable=False),
        Column("reason", Text),
        Column("batch_size", Integer),
        Column("devices", Integer),
        Column("step_ns", BigInteger),
        Column("p05_bp", Integer),
        Column("p25_bp", Integer),
        Column("p75_bp", Integer),
        Column("p95_bp", Integer),
        Column("mean_bp", Integer),
        Column("ci_low_bp", Integer),
        Column("ci_high_bp", Integer),
        Column("energy_uj_per_image", BigInteger),
        Column("clock_mhz", Integer),
        Column("temperature_c", SmallInteger),
        Column("throttled_bp", Integer),
        Column("steady", Boolean),
        Column("disturbed", Boolean),
        sqlite_with_rowid=False,
    )


def _create_journal() -> None:
    op.create_table(
        "journal",
        Column("root", Text, primary_key=True),
        Column("stamp", Text, nullable=False),
    )
    op.create_table(
        "baseline",
        Column("root", Text, primary_key=True),
        Column("alias", Text, primary_key=True),
        Column("cell_id", Text, primary_key=True),
        Column("time", Text, nullable=False),
        Column("run_ids", Text, nullable=False),
        Column("reason", Text, nullable=False),
    )
    op.create_table(
        "incident",
        Column("root", Text, primary_key=True),
        Column("level", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("cell_id", Text, primary_key=True),
        Column("opened", Text, primary_key=True),
        Column("time", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("baseline", Float, nullable=False),
        Column("change", Float, nullable=False),
        Column("good_nights", Integer, nullable=False),
        Column("recovered", Text),
        Column("beyond_nights", Integer, nullable=False),
        Column("ending", Text),
        Column("ended", Text),
        Column("reason", Text, nullable=False),
    )
    op.create_table(
        "annotation",
        Column("root", Text, primary_key=True),
        Column("place", Integer, primary_key=True, autoincrement=False),
        Column("time", Text, nullable=False),
        Column("alias", Text, nullable=False),
        Column("message", Text, nullable=False),
    )
