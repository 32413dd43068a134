"""Kafka's ids of topics, and the way back."""

from hashlib import sha256

from tank_node.broker.topic_ids import NO_TOPIC, topic_by_uuid, topic_uuid
from tank_node.cluster.view import ChangeKind
from tests.support.controllers.instant_controller import InstantController


def test_an_id_is_half_the_clusters_and_half_the_topics() -> None:
    digest = sha256(b"my-cluster").digest()[:8]
    uuid = topic_uuid("my-cluster", 0x1234)
    assert uuid == bytes([digest[0] & 0x7F]) + digest[1:] + bytes.fromhex("0000000000001234")


def test_an_id_has_no_top_bit_whatever_the_cluster_is_called() -> None:
    ids = [topic_uuid(f"cluster-{number}", 2**64 - 1) for number in range(64)]
    assert all(uuid[0] < 0x80 and uuid[:8] != bytes(8) for uuid in ids)
    assert len(set(ids)) == 64


def test_an_id_leads_back_to_its_topic() -> None:
    controller = InstantController()
    topic = controller.add("one", 2)
    uuid = topic_uuid(controller.view.cluster_id, topic.topic_id)
    assert topic_by_uuid(controller.view, uuid) is topic


def test_a_topic_made_again_has_another_id_and_the_old_one_leads_nowhere() -> None:
    controller = InstantController()
    old = controller.add("one")
    controller.publish(ChangeKind.DELETED, old)
    new = controller.add("one")
    cluster_id = controller.view.cluster_id
    assert topic_by_uuid(controller.view, topic_uuid(cluster_id, old.topic_id)) is None
    assert topic_by_uuid(controller.view, topic_uuid(cluster_id, new.topic_id)) is new


def test_ids_of_other_clusters_and_no_id_lead_nowhere() -> None:
    controller = InstantController()
    topic = controller.add("one")
    assert topic_by_uuid(controller.view, topic_uuid("another-cluster", topic.topic_id)) is None
    assert topic_by_uuid(controller.view, NO_TOPIC) is None
    assert topic_by_uuid(controller.view, bytes(8) + topic.topic_id.to_bytes(8, "big")) is None
