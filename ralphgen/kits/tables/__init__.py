"""The kit `tables`: tools on any table or view of the project's database."""
