"""`peerd overlays`: the overlays, their parameters, and where each default comes from."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from msgspec import inspect

    from protocols.overlay import Kind


@click.command(short_help="Show the overlays and their parameters.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def overlays(as_json: bool) -> None:
    """Show the overlays with their parameters, defaults, bounds and where each default comes from."""
    from peerd import registry
    from peerd.cli.output import print_json

    found = [_described(kind, kind.name == registry.DEFAULT) for kind in registry.kinds()]
    if as_json:
        print_json({"overlays": found})
    else:
        for each in found:
            _show(each)


def _described(kind: "Kind", default: bool) -> dict[str, Any]:
    from msgspec import inspect

    config = inspect.type_info(kind.config)
    assert isinstance(config, inspect.StructType)
    return {
        "name": kind.name,
        "summary": kind.summary,
        "default": default,
        "complete": kind.complete(kind.config()),
        "participants_max": kind.participants_max,
        "converges_within_s": kind.converges_within_s,
        "parameters": [_parameter(field) for field in config.fields],
        "profiles": kind.profiles,
    }


def _parameter(field: "inspect.Field") -> dict[str, Any]:
    import msgspec
    from msgspec import inspect

    type_, described, source = field.type, "", ""
    if isinstance(type_, inspect.Metadata):
        described = (type_.extra_json_schema or {}).get("description", "")
        source = (type_.extra or {}).get("source", "")
        type_ = type_.type
    choices = list(type_.values) if isinstance(type_, inspect.LiteralType) else None
    return {
        "name": field.encode_name,
        "type": "choice" if choices else type(type_).__name__.removesuffix("Type").lower(),
        "default": msgspec.to_builtins(field.default),
        "min": getattr(type_, "ge", None),
        "max": getattr(type_, "le", None),
        "choices": choices,
        "description": described,
        "source": source,
    }


# --- To read ----------------------------------------------------------------------------------------------------------


def _show(overlay: dict[str, Any]) -> None:
    from peerd.cli.output import print_table

    promise = "every owed event arrives" if overlay["complete"] else "some owed events may not arrive"
    click.echo(f"{overlay['name']}{' (default)' if overlay['default'] else ''}: {overlay['summary']}")
    click.echo(
        f"{promise}; participants in a peer: at most {overlay['participants_max']}; "
        f"converges within {overlay['converges_within_s']} s of a fault (at 200 peers)"
    )
    rows = [
        (each["name"], str(each["default"]), _bounds(each), each["description"], each["source"])
        for each in overlay["parameters"]
    ]
    print_table(rows, ("parameter", "default", "bounds", "what it is", "where the default comes from"))
    for name, values in overlay["profiles"].items():
        click.echo(f"profile={name}: {' '.join(f'{key}={value}' for key, value in values.items())}")
    click.echo()


def _bounds(parameter: dict[str, Any]) -> str:
    low, high = parameter["min"], parameter["max"]
    if parameter["choices"]:
        return ", ".join(map(str, parameter["choices"]))
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"from {low:g}"
    return f"up to {high:g}" if high is not None else ""
