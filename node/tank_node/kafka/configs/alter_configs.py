"""AlterConfigs (33): replaces all settings of topics."""

from typing import TYPE_CHECKING

from tank_node.cluster.view import TopicView
from tank_node.kafka.configs.config_changes import Settings, change_configs, check_names
from tank_node.kafka.configs.topic_configs import CONFIGS, config_named, setting_of
from tank_node.kafka.errors import KafkaError, first_error, outcome_of
from tank_protos.generated.kafka import AlterConfigsRequest, AlterConfigsResponse
from tank_protos.generated.kafka.alter_configs_request import AlterConfigsResource
from tank_protos.generated.kafka.alter_configs_response import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def alter_configs(call: "KafkaCall", body: memoryview) -> None:
    """Gives each topic the settings of the request, and their defaults to all others."""
    request = AlterConfigsRequest.decode(body, call.version)

    def finish(results: list[tuple[AlterConfigsResource, KafkaError, str | None]]) -> None:
        responses = [
            AlterConfigsResourceResponse(error, message, each.resource_type, each.resource_name)
            for each, error, message in results
        ]
        call.answer(AlterConfigsResponse(responses=responses), outcome_of(first_error(responses)))

    change_configs(call, request.resources, _replaced, finish, validate_only=request.validate_only)


def _replaced(topic: TopicView, resource: AlterConfigsResource) -> Settings:
    """What to set, and what to set back. Raises InvalidConfig, InvalidChange."""
    known = {config.setting for config in CONFIGS}
    settings: Settings = {key: None for key in topic.settings_text if key in known}
    check_names(config.name for config in resource.configs)
    for config in resource.configs:
        if config.value is None:  # the default
            config_named(config.name)
        elif setting := setting_of(config.name, config.value):
            settings.update([setting])
    return settings
