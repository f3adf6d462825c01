"""The fields of a checkpoint that name other repositories of the Hub, such as its tokenizer.

The host fetches these repositories, and the policy's process replaces the names by directories.
"""

from collections.abc import Mapping
from typing import Any

from envhub.errors import ContractError

TOKENIZERS = frozenset({
    "action_tokenizer_name", "action_tokenizer_path", "discrete_action_tokenizer",
    "paligemma_tokenizer_name", "text_tokenizer_name", "tokenizer_assets_repo",
    "tokenizer_model_id", "tokenizer_name",
})  # fmt: skip
"""Fields of LeRobot 0.4.4 to 0.6.1 whose repository is read without its weights."""
NETWORKS = frozenset({
    "base_model_id", "base_model_path", "checkpoint_path", "jepa_encoder_name", "model_id",
    "model_name", "pretrained_name_or_path", "qwen_model_name", "text_encoder_model_id",
    "text_encoder_name", "vision_encoder_name", "vlm_base", "vlm_model_name",
    "wan_pretrained_path",
})  # fmt: skip
"""Fields of the same versions that name a network."""
FIELDS = TOKENIZERS | NETWORKS


def needs_weights(field: str, config: Mapping[str, Any]) -> bool:
    """Whether the weights of a repository are read, too.

    Args:
        field: The name of the field.
        config: The checkpoint's `config.json`.
    """
    # SmolVLA has the weights in the checkpoint, and may build the network of its description only.
    return field in NETWORKS and config.get("load_vlm_weights", True) is not False


def replace_names(
    file: str, fields: Mapping[str, Any], models: Mapping[str, str]
) -> dict[str, Any]:
    """Return fields in which local directories stand for the names of repositories.

    Args:
        file: The file that has them, for errors.
        fields: Fields of `config.json`, or of a step of a processor.
        models: The directory that stands for each name.

    Raises:
        ContractError: A name has no directory.
    """
    for field, value in fields.items():
        if field in FIELDS and isinstance(value, str) and value not in models:
            raise ContractError(
                f"The checkpoint names the model {value[:100]!r} ({field} of {file}), and nothing "
                "says where its files are: --policy-arg models=NAME=DIRECTORY, or "
                "load_lerobot_policy(..., models={NAME: DIRECTORY})."
            )
    return {
        field: models[value] if field in FIELDS and isinstance(value, str) else value
        for field, value in fields.items()
    }
