"""Addresses of servers."""

import pytest

from justmem.runtime.addresses import is_local, is_loopback


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("127.attacker.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, here: bool) -> None:
    assert is_loopback(host) is here
    assert is_local(f"http://[{host}]:8000/v1" if ":" in host else f"http://{host}:8000/v1") is here
