"""Work that outlives the request: when it is due, and who may have it done."""
