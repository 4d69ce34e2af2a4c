"""The built-in redaction: it finds what it says it finds, and leaves ordinary text alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justmem.intake.redaction import secrets

FOUND = [
    # cards
    ("My Visa is 4111 1111 1111 1111, exp 12/27.", "My Visa is [card number], exp 12/27."),
    ("card:4111111111111111", "card:[card number]"),
    ("5500-0000-0000-0004 is the Mastercard", "[card number] is the Mastercard"),
    ("Amex 3782 822463 10005.", "Amex [card number]."),
    ("Diners 3056 930902 5904", "Diners [card number]"),
    ("use 6011000990139424 or 3530111333300000", "use [card number] or [card number]"),
    ("new series: 2223003122003222", "new series: [card number]"),
    # keys
    ("export OPENAI_API_KEY=sk-proj-abc123DEF456ghi789JKL", "export OPENAI_API_KEY=[API key]"),
    ("sk-ant-api03-Abc123Def456Ghi789Jkl012 leaked", "[API key] leaked"),
    ("it is AKIAIOSFODNN7EXAMPLE, rotate it", "it is [API key], rotate it"),
    ("ghp_" + "a1B2c3D4e5" * 4, "[API key]"),
    ("xoxb-123456789012-abcdefGHIJKL", "[API key]"),
    ("Google: AIzaSyA1234567890abcdefghijklmnopqrstuv", "Google: [API key]"),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "[API key]"),
    ("token: 9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c", "token: [token]"),
    ("client_secret = 'Zx81kQp03mLr77TtYw2B'", "client_secret = '[API key]'"),
    ("https://x.test/?key=a8Fk29dLq0Zx71mN3v", "https://x.test/?key=[API key]"),
    ("Authorization: Bearer 7fK2mQ9xLr4Tz8Wb1Nc5Vd", "Authorization: Bearer [token]"),
    (
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N ok",
        "jwt [token] ok",
    ),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----\nthere",
        "[private key]\nthere",
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIEow", "[private key]"),
    ("postgresql://ana:hunter2@db/app", "postgresql://ana:[password]@db/app"),
    # passwords
    ("password: letme1n", "password: [password]"),
    ("Username: ana Password=Pa55word!", "Username: ana Password=[password]"),
    ('{"password": "s3cr3t", "user": "ana"}', '{"password": "[password]", "user": "ana"}'),
]


@pytest.mark.parametrize(("text", "left"), FOUND, ids=[left[:40] for _, left in FOUND])
def test_secrets_are_replaced(text: str, left: str) -> None:
    assert secrets(text) == left


ORDINARY = [
    "Call me on +49 170 1234567 or (555) 123-4567 after six.",
    "Ring 0044 20 7946 0958, extension 4411.",
    "We met on 2024-05-20 14:30:00 and again on 12/05/2024 at 16:45.",
    "Order 4111111111111112 shipped; tracking 1Z999AA10123456784.",
    "Invoice 2024-0005-1234-9876, customer 1234567890123456.",
    "ISBN 978-3-16-148410-0 and IBAN DE89 3704 0044 0532 0130 00.",
    "The commit is 3f2a9c1b7e5d4f6a8b0c2d4e6f8a0b1c2d3e4f5a.",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id = 550e8400-e29b-41d4-a716-446655440000",
    "The cache key is user_profile_settings_v2_2024.",
    "primary key: customer_account_identifier",
    "Tokens are cheap: the token limit is 128000 tokens.",
    "My secret is that I never liked coriander.",
    "The key is under the doormat, as always.",
    "The secret ingredient: 250 g of butter.",
    "I forgot my password again. The password is too long to remember.",
    "My password is expired.",
    "My password is swordfish.",
    "The password was reset, and the password is not working.",
    "Password: required. Password: ********. password: <your password>",
    "password = getpass() and password: ${DB_PASSWORD} and password=os.environ['X']",
    "Passwords are hashed. Is your password strong?",
    "He sent 1716213600000 milliseconds and 1234567890123456789 as an id.",
    "Pi is 3.14159265358979323846 and 0.4111111111111111 is a number.",
    "I ran 10 km in 52:31, pulse 148, on 2024-03-10.",
    "sk-learn-contrib-metrics is a package; so is sk-video.",
    "We pinned it: pin 12 is ground. My pin is on the map.",
    "Lat 48.137154, long 11.576124; account no. 12345678.",
    "0000 0000 0000 0000 is no card.",
    "See https://example.com:8080/a/b?page=12&sort=key and http://user@host/",
    "BTC 1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2 arrived.",
    "The bearer of good news came at 12.",
]


@pytest.mark.parametrize("text", ORDINARY, ids=[text[:40] for text in ORDINARY])
def test_other_text_is_left_alone(text: str) -> None:
    assert secrets(text) == text


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("password isky=:-_'\"[]{}.eyJ 4111\n sk-AZ09 token"), max_size=200))
def test_redacting_twice_is_the_same_as_once(text: str) -> None:
    assert secrets(secrets(text)) == secrets(text)


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "4111 ", "key", "sk-", "eyJa.", "password is ", "-----BEGIN PRIVATE KEY", "://a:"],
)
def test_the_longest_turn_is_read_to_its_end(piece: str) -> None:
    """A pattern that goes back and forth would be at it for hours."""
    text = piece * (1_000_000 // len(piece)) + "\npassword: hunter2"
    assert secrets(text).endswith(("password: [password]", "[private key]"))
