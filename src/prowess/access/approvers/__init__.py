"""Named approvers, and the irreversible codes that a tenant opened (U8, G1)."""
