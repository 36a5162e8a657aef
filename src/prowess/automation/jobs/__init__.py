"""Jobs: the ledger of work that outlives the request, and what runs it."""
