from __future__ import annotations

from ipaddress import ip_address

import pytest

from prowess.kernel.addresses import is_public, read_address


@pytest.mark.parametrize(
    "text",
    [
        "93.184.216.34", "8.8.8.8", "2606:2800:220:1::34", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "2002:5db8:d822::1",
    ],
)  # fmt: skip
def test_x6_public_addresses(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8", "168.63.129.16",
        "169.254.169.254", "172.16.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
        "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b::7f00:1",
        "64:ff9b:1::1", "100::1", "2001:db8::1", "2002:a00:1::1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:f5ff:fffe",
        "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
    ],
)  # fmt: skip
def test_x6_addresses_that_are_not_of_the_public_internet(text: str) -> None:
    assert not is_public(ip_address(text))


def test_x6_an_address_is_read_in_its_usual_writing_alone() -> None:
    assert str(read_address("93.184.216.34")) == "93.184.216.34"
    assert str(read_address("::1")) == "::1"
    for text in ("", "fe80::1%lo", "[::1]", "1572395042", "0x5db8d822", "127.1", "093.184.216.34", "api.example.com"):
        assert read_address(text) is None
