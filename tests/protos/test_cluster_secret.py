"""The cluster's secret: files of it, proofs, and what is no proof."""

from collections.abc import Callable

import pytest

from tank_protos.cluster_secret import (
    MAX_LINES,
    NONCE_BYTES,
    Nonces,
    Party,
    PartyRole,
    Question,
    SecretError,
    SecretFile,
    SecretRefusal,
    Secrets,
    UnprovenError,
    Verifier,
    parse,
)
from tank_protos.generated import control_pb2 as pb
from tests.support.manual_clock import ManualClock

OLD, NEW, OTHER = (letter * 32 for letter in (b"o", b"n", b"x"))
CHANGE, STATE = "/tank.control.Admin/Change", "/tank.control.Admin/State"
HERE, THERE = Party(PartyRole.CONTROLLER, 1, b"d" * 16), Party(PartyRole.CONTROLLER, 2, b"e" * 16)
PERSON, BROKER = Party(PartyRole.ADMIN), Party(PartyRole.BROKER, 7)


def counted() -> Callable[[int], bytes]:
    """Random bytes that are not random."""
    drawn = iter(range(10**6))
    return lambda size: next(drawn).to_bytes(size, "little")


class Both:
    """A controller and a caller, each with its secrets."""

    def __init__(self, here: Secrets | None, there: Secrets) -> None:
        self.clock = ManualClock()
        self.here, self.there = here, there
        self.random = counted()
        self.nonces = Nonces(self.random, self.clock.monotonic_ms)
        self.verifier = Verifier(HERE, self.nonces)

    def proof(self, method: str = CHANGE, caller: Party = PERSON) -> bytes:
        """Of a caller that asked for it."""
        question = Question(self.there, caller, method, self.random(NONCE_BYTES))
        return question.proof(self.verifier.answer(question.request, self.here), demanded=True)

    def judged(self, proof: bytes | None, method: str = CHANGE) -> Party | SecretRefusal:
        assert self.here is not None
        return self.verifier.judge(method, proof, self.here)


@pytest.fixture
def both() -> Both:
    return Both(Secrets((NEW,)), Secrets((NEW,)))


# --- files ---


def test_a_file_holds_a_line_or_some_while_it_is_changed() -> None:
    assert parse(b"\n  " + NEW + b" \r\n\n" + OLD + b"\n", "f").lines == (NEW, OLD)
    assert "nnnn" not in repr(parse(NEW, "f"))


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"short", b"two words of one long line", b"\xff" * 32, b"a" * 5000,
     b"\n".join([NEW] * (MAX_LINES + 1))],
    ids=["empty", "blank", "short", "words", "no ascii", "long", "many"],
)  # fmt: skip
def test_what_is_no_secret_is_refused_with_what_to_do_and_without_showing_it(content: bytes) -> None:
    with pytest.raises(SecretError, match=r"^(/etc/secret|a line of /etc/secret) ") as raised:
        parse(content, "/etc/secret")
    assert content.decode("latin-1") not in str(raised.value) or not content.strip()


def test_a_file_is_read_again_and_what_was_read_before_counts_while_it_cannot_be() -> None:
    clock, content = ManualClock(), [OLD]
    file = SecretFile(lambda: content[0], "f", clock.monotonic_ms)
    content[0] = NEW
    assert file.current().lines == (OLD,), "once a second is enough"
    clock.pass_ms(1000)
    assert file.current().lines == (NEW,)
    content[0] = b"?"
    clock.pass_ms(1000)
    assert (file.current().lines, file.problem[:9]) == ((NEW,), "a line of")
    content[0] = OLD
    clock.pass_ms(1000)
    assert (file.current().lines, file.problem) == ((OLD,), "")


# --- proofs ---


def test_who_knows_the_secret_is_known_by_its_proof(both: Both) -> None:
    assert both.judged(both.proof(caller=BROKER)) == BROKER


def test_a_proof_is_good_once(both: Both) -> None:
    proof = both.proof()
    assert both.judged(proof) == PERSON
    assert both.judged(proof) is SecretRefusal.STALE


def test_a_proof_is_good_for_its_method_alone(both: Both) -> None:
    assert both.judged(both.proof(method=STATE), CHANGE) is SecretRefusal.WRONG


def test_a_proof_is_good_at_the_controller_that_was_meant(both: Both) -> None:
    proof = both.proof()
    verifier = Verifier(THERE, Nonces(both.random, both.clock.monotonic_ms))
    assert verifier.judge(CHANGE, proof, Secrets((NEW,))) is SecretRefusal.NOT_MEANT
    given = pb.CallProof.FromString(proof)
    given.answerer.CopyFrom(THERE.message())
    assert verifier.judge(CHANGE, given.SerializeToString(), Secrets((NEW,))) is SecretRefusal.STALE


def test_nobody_speaks_for_another_with_a_proof_that_it_heard(both: Both) -> None:
    given = pb.CallProof.FromString(both.proof())
    given.caller.CopyFrom(BROKER.message())
    assert both.judged(given.SerializeToString()) is SecretRefusal.WRONG


def test_a_challenge_is_answered_in_time_or_not_at_all(both: Both) -> None:
    proof, late = both.proof(), both.proof()
    both.clock.pass_ms(Nonces.LIFE_MS)
    assert both.judged(proof) == PERSON
    both.clock.pass_ms(1)
    assert both.judged(late) is SecretRefusal.STALE
    assert both.judged(both.proof()) == PERSON
    assert len(both.nonces.used) == 1 + 1
    both.clock.pass_ms(Nonces.LIFE_MS + 1)
    assert both.judged(both.proof()) == PERSON
    assert len(both.nonces.used) == 1, "and the ones before are forgotten"


def test_made_up_random_bytes_are_of_no_challenge(both: Both) -> None:
    given = pb.CallProof.FromString(both.proof())
    for answered in (b"", b"x" * 56, given.answered[:-1] + bytes([given.answered[-1] ^ 1])):
        given.answered = answered
        assert both.judged(given.SerializeToString()) is SecretRefusal.STALE


@pytest.mark.parametrize("carried", [None, b"", b"\xff\xff", pb.CallProof().SerializeToString()])
def test_what_is_no_proof_is_refused(both: Both, carried: bytes | None) -> None:
    assert both.judged(carried) in (SecretRefusal.MISSING, SecretRefusal.NOT_MEANT)


def test_a_controllers_own_proof_is_no_callers(both: Both) -> None:
    """What the controller shows to whoever asks opens nothing."""
    question = Question(Secrets((OTHER,)), PERSON, CHANGE, both.random(NONCE_BYTES))
    answer = both.verifier.answer(question.request, both.here)
    shown = pb.CallProof(
        caller=PERSON.message(), answerer=answer.answerer, asked=question.request.nonce,
        answered=answer.nonce, proof=answer.proof,
    )  # fmt: skip
    assert both.judged(shown.SerializeToString()) is SecretRefusal.WRONG


def test_a_changed_byte_anywhere_is_no_proof(both: Both) -> None:
    proof = both.proof()
    for at in range(len(proof)):
        changed = proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :]
        assert isinstance(both.judged(changed), SecretRefusal), at
    assert both.judged(proof) == PERSON


# --- both sides ---


def test_another_secret_is_found_out_by_the_caller_first() -> None:
    with pytest.raises(UnprovenError, match="it knows another secret than this process"):
        Both(Secrets((OTHER,)), Secrets((NEW,))).proof()


def test_a_controller_without_a_secret_is_told_nothing_and_left_where_one_is_demanded() -> None:
    both = Both(None, Secrets((NEW,)))
    question = Question(both.there, PERSON, CHANGE, both.random(NONCE_BYTES))
    answer = both.verifier.answer(question.request, None)
    assert question.proof(answer, demanded=False) == question.proof(None, demanded=False) == b""
    for said in (answer, None):
        with pytest.raises(UnprovenError, match="start it with --secret-file"):
            question.proof(said, demanded=True)


def test_another_controller_than_the_one_that_was_meant_is_not_spoken_to(both: Both) -> None:
    question = Question(both.there, THERE, CHANGE, both.random(NONCE_BYTES))
    answer = both.verifier.answer(question.request, both.here)
    assert question.proof(answer, demanded=True, ordinal=1)
    with pytest.raises(UnprovenError, match="controller 2 was meant, and controller 1 is there"):
        question.proof(answer, demanded=True, ordinal=2)


@pytest.mark.parametrize(
    ("here", "there"),
    [((OLD, NEW), (OLD,)), ((OLD,), (OLD, NEW)), ((NEW, OLD), (OLD, NEW)), ((NEW,), (NEW, OLD)),
     ((NEW, OLD), (NEW,))],
)  # fmt: skip
def test_a_secret_is_changed_in_three_steps_between_which_everybody_understands_everybody(
    here: tuple[bytes, ...], there: tuple[bytes, ...]
) -> None:
    """All get the new line behind the old one, then before it, then alone."""
    both = Both(Secrets(here), Secrets(there))
    assert both.judged(both.proof()) == PERSON


def test_a_question_that_makes_no_sense_gets_no_proof(both: Both) -> None:
    for request in (
        pb.ChallengeRequest(),
        pb.ChallengeRequest(caller=PERSON.message(), nonce=b"short"),
        pb.ChallengeRequest(caller=pb.TrustParty(role=9), nonce=bytes(NONCE_BYTES)),
    ):
        assert both.verifier.answer(request, both.here).proof == b""
