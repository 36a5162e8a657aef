"""Encrypted slots for the credentials of users, tenants and skills."""
