"""Where a version of a skill comes from, as far as it was verified (ruling 12.8)."""

from __future__ import annotations

from enum import StrEnum


class Trust(StrEnum):
    """What vouches for a version."""

    BUILT_IN = "built_in"
    """part of Prowess, or given by the program that embeds it"""
    VERIFIED = "verified"
    """signed by a key that the tenant trusts for this skill"""
    COMMUNITY = "community"
    """installed by the operator without such a signature"""
    GENERATED = "generated"
    """made by a program, from what was observed"""
