"""The suites and their tasks: what is to be done, and for how long."""

from envhub import Task

HORIZON = {{cookiecutter.horizon}}
"""Steps of an episode."""
{%- set text = cookiecutter.instruction %}
{%- set quote = "'" if text.count('"') > text.count("'") else '"' %}
INSTRUCTION = {{quote}}{{text|replace('\\', '\\\\')|replace(quote, '\\' + quote)}}{{quote}}{% if text|length > 80 %}  # noqa: E501{% endif %}


def suites() -> dict[str, tuple[Task, ...]]:
    """Return every suite with its tasks."""
    task = Task(
        name="{{cookiecutter.__task}}",
        description=INSTRUCTION,
        horizon=HORIZON,
{%- if cookiecutter.success == "survived" %}
        success="at_end",
{%- endif %}
    )
    return {"{{cookiecutter.__name}}": (task,)}
