"""Taking skills in from outside: archives, signatures, trust, quarantine and approval, locks and rollback (U11)."""
