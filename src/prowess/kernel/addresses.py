"""Which addresses belong to the public internet (B15, X6)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

_NAT64 = int(IPv6Address("64:ff9b::")) >> 32
_NEVER: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # IETF protocol assignments; one cloud keeps its metadata there
        "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
        "168.63.129.16/32",  # the platform of one cloud, seen from its machines only
        "64:ff9b:1::/48",  # NAT64 of one network (RFC 8215): what is behind it cannot be known
        "3fff::/20",  # documentation (RFC 9637)
    )
)
"""What the registries, or the tables of older Pythons, call global although no public host is there."""


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, looking through IPv6 forms that carry an IPv4 address."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or _nat64(address)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    if any(address in network for network in _NEVER):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved and not address.is_unspecified


def read_address(text: str) -> Address | None:
    """An address in its usual writing, without brackets and zone; null for anything else."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def _nat64(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    return IPv4Address(number & 0xFFFFFFFF) if number >> 32 == _NAT64 else None
