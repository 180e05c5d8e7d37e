"""The tables of the index.

Whatever is measured is an integer, so that a year of a hundred hosts stays small: spreads are in parts of the median.
A change here needs a migration beside it; a test holds them together.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, MetaData, SmallInteger, Table, Text

from fleet.model.result import CellStatus

REVISION = "0002"
"""Of the newest migration."""

STATUS_CODES = {
    CellStatus.OK: 0,
    CellStatus.OOM: 1,
    CellStatus.UNSUPPORTED: 2,
    CellStatus.TIMEOUT: 3,
    CellStatus.CRASH: 4,
    CellStatus.INVALID: 5,
    CellStatus.SKIPPED: 6,
    CellStatus.LOST: 7,
}
"""`result.status`. A number is never given to another status."""

metadata = MetaData()


def _text(name: str, *, nullable: bool = True) -> Column[str]:
    return Column(name, Text, nullable=nullable)


run = Table(
    "run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Text, unique=True, nullable=False),
    _text("root", nullable=False),  # the reports directory it is in; empty: the one that the index itself is in
    Column("stamp", BigInteger, nullable=False),  # when its run.json was written, by the file: nanoseconds
    _text("created", nullable=False),
    _text("finished", nullable=False),
    _text("suite", nullable=False),
    _text("inventory", nullable=False),
    _text("fleet_version", nullable=False),
    _text("payload_sha256", nullable=False),
    Column("interrupted", Boolean, nullable=False),
    Column("exit_code", SmallInteger, nullable=False),
    Column("hosts_ok", Integer, nullable=False),
    Column("hosts_total", Integer, nullable=False),
    Column("cells_ok", Integer),
    Column("cells_total", Integer, nullable=False),
)

host = Table(
    "host", metadata, Column("id", Integer, primary_key=True), Column("alias", Text, unique=True, nullable=False)
)

cell = Table(
    "cell",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cell_id", Text, unique=True, nullable=False),
    _text("model", nullable=False),
    _text("phase", nullable=False),
    _text("precision", nullable=False),
    Column("batch_size", Integer, nullable=False),
    _text("device", nullable=False),
    Column("devices", Integer, nullable=False),
    _text("data_format", nullable=False),
    Column("xla", Boolean, nullable=False),
    _text("optimizer", nullable=False),
    _text("variable_update", nullable=False),
    Column("steps_per_call", Integer, nullable=False),
)

environment = Table(
    "environment",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("fingerprint", Text, unique=True, nullable=False),
    _text("product"),
    _text("kernel"),
    _text("os"),
    _text("cpu_model"),
    _text("gpu"),  # how many of which, for people
    _text("driver"),
    _text("image"),
    _text("tensorflow"),
    _text("fields", nullable=False),  # `fleet.model.environment.Environment` as JSON
)

outcome = Table(
    "outcome",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("host", Integer, primary_key=True, autoincrement=False),
    _text("status", nullable=False),
    _text("stage"),
    _text("reason"),
    Column("job_s", Float),
    Column("protocol", Integer),  # of its results; NULL: it has none
    Column("environment", Integer),
)

# One row for each result, in the order of the key: a night is appended, and read again in one piece; of one cell's year
# every night is one look-up. A second index would be as large as the table.
result = Table(
    "result",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("host", Integer, primary_key=True, autoincrement=False),
    Column("cell", Integer, primary_key=True, autoincrement=False),
    Column("status", SmallInteger, nullable=False),  # see STATUS_CODES
    _text("reason"),  # of what is not ok
    Column("batch_size", Integer),  # found, where the cell leaves it open
    Column("devices", Integer),  # likewise
    Column("step_ns", BigInteger),  # median; images per second are the images of a step, by the cell, through it
    Column("p05_bp", Integer),  # quantiles, mean and 95 % interval of the median: difference from the median in
    Column("p25_bp", Integer),  # basis points of it, 1/10,000
    Column("p75_bp", Integer),
    Column("p95_bp", Integer),
    Column("mean_bp", Integer),
    Column("ci_low_bp", Integer),
    Column("ci_high_bp", Integer),
    Column("energy_uj_per_image", BigInteger),  # of the GPUs it ran on, or of the processor packages
    Column("clock_mhz", Integer),  # median; of several GPUs the lowest; so of the processors
    Column("temperature_c", SmallInteger),  # highest
    Column("throttled_bp", Integer),  # share of the time that hardware or heat held the clocks down, in basis points
    Column("steady", Boolean),
    Column("disturbed", Boolean),  # others used the machine meanwhile
    sqlite_with_rowid=False,
)

journal = Table(
    "journal",
    metadata,
    Column("root", Text, primary_key=True),
    _text("stamp", nullable=False),  # of the file that the rows below are from
)

baseline = Table(
    "baseline",
    metadata,
    Column("root", Text, primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("cell_id", Text, primary_key=True),
    _text("time", nullable=False),
    _text("run_ids", nullable=False),  # JSON
    _text("reason", nullable=False),
)

incident = Table(
    "incident",
    metadata,
    Column("root", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("cell_id", Text, primary_key=True),
    Column("opened", Text, primary_key=True),
    _text("time", nullable=False),
    _text("kind", nullable=False),
    Column("baseline", Float, nullable=False),
    Column("change", Float, nullable=False),
    Column("good_nights", Integer, nullable=False),
    _text("recovered"),
    Column("beyond_nights", Integer, nullable=False),
    _text("ending"),
    _text("ended"),
    _text("reason", nullable=False),
)

annotation = Table(
    "annotation",
    metadata,
    Column("root", Text, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    _text("time", nullable=False),
    _text("alias", nullable=False),
    _text("message", nullable=False),
)
