"""What an approver is named for. No I/O."""

from __future__ import annotations

ANY_CODE = "*"
"""instead of a permission code: all of them"""
