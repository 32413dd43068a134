"""IncrementalAlterConfigs (44): changes some settings of topics."""

from enum import IntEnum
from typing import TYPE_CHECKING

from tank_node.cluster.view import TopicView
from tank_node.kafka.configs.config_changes import InvalidChange, Settings, change_configs, check_names
from tank_node.kafka.configs.config_values import list_of
from tank_node.kafka.configs.topic_configs import (
    ConfigType,
    InvalidConfig,
    config_named,
    setting_of,
    value_of,
)
from tank_node.kafka.errors import KafkaError, first_error, outcome_of
from tank_protos.generated.kafka import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from tank_protos.generated.kafka.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
)
from tank_protos.generated.kafka.incremental_alter_configs_response import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


class _Operation(IntEnum):
    """What happens to a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(call: "KafkaCall", body: memoryview) -> None:
    """Changes the settings that the request names, and leaves the others."""
    request = IncrementalAlterConfigsRequest.decode(body, call.version)

    def finish(results: list[tuple[AlterConfigsResource, KafkaError, str | None]]) -> None:
        responses = [
            AlterConfigsResourceResponse(error, message, each.resource_type, each.resource_name)
            for each, error, message in results
        ]
        call.answer(IncrementalAlterConfigsResponse(responses=responses), outcome_of(first_error(responses)))

    change_configs(call, request.resources, _changed, finish, validate_only=request.validate_only)


def _changed(topic: TopicView, resource: AlterConfigsResource) -> Settings:
    """What to set, and what to set back. Raises InvalidConfig, InvalidChange."""
    settings: Settings = {}
    check_names(config.name for config in resource.configs)
    for config in resource.configs:
        row = config_named(config.name)
        value = _new_value(topic, config)
        if value is None:
            if row.setting:
                settings[row.setting] = None
        elif setting := setting_of(config.name, value):
            settings.update([setting])
    return settings


def _new_value(topic: TopicView, config: AlterableConfig) -> str | None:
    """The config's value after the change; None: the default."""
    if config.config_operation not in list(_Operation):
        raise InvalidChange(f"{config.config_operation} is no operation on a config")
    operation = _Operation(config.config_operation)
    if operation is _Operation.DELETE:
        return None
    if config.value is None:
        raise InvalidChange(f"{operation.name} of config {config.name} needs a value")
    if operation is _Operation.SET:
        return config.value
    if config_named(config.name).type is not ConfigType.LIST:
        raise InvalidConfig(f"{config.name} is no list: {operation.name} is for lists")
    elements, named = list_of(value_of(topic, config.name)), list_of(config.value)
    if operation is _Operation.APPEND:
        return ",".join(dict.fromkeys(elements + named))
    return ",".join(element for element in elements if element not in named)
