"""What alembic runs: the migrations, within the transaction that `fleet.store.migrating` has begun."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
