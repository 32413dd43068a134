"""A secret shows itself nowhere."""

import pickle
import traceback

import pytest

from tank_protos.users.secret import Secret


def test_no_text_form_shows_a_secret() -> None:
    secret = Secret(b"open sesame")
    forms = [repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", str([secret])]
    assert not [form for form in forms if "sesame" in form]
    assert secret.reveal() == b"open sesame"
    assert len(secret) == 11


def test_secrets_are_compared_and_not_pickled() -> None:
    assert Secret(b"a") == Secret(b"a")
    assert Secret(b"a") != Secret(b"b")
    assert Secret(b"a") != b"a"
    with pytest.raises(TypeError):
        pickle.dumps(Secret(b"a"))
    with pytest.raises(TypeError):
        hash(Secret(b"a"))


def test_a_traceback_with_the_values_of_names_shows_none() -> None:
    def fail(password: Secret) -> None:
        raise ValueError(f"{password} is wrong")

    with pytest.raises(ValueError) as raised:
        fail(Secret(bytes.fromhex("736573616d65")))
    shown = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "password = Secret(***)" in shown
    assert "sesame" not in shown
