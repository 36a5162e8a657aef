"""``python -m prowess``."""

from prowess.cli.main import run

run()
