"""The OpenAPI 3.1 description, made from the list of operations and the types of the documents."""

from functools import cache
from typing import Any, Final

import msgspec

from peerd.api.problems import CONTENT_TYPE, PROBLEMS
from peerd.api.routes import EVERYWHERE, OPERATIONS, SPOKEN, Answer, Operation, Parameter
from peerd.documents import Problem

PATH: Final = "/openapi.json"
_HEADERS: Final = {
    "Location": {"description": "The path of the subscription.", "schema": {"type": "string"}},
    "Peerd-Cursor": {"description": "The cursor to read on after (CloudEvents only).", "schema": {"type": "string"}},
    "Retry-After": {"description": "Whole seconds.", "schema": {"type": "string"}},
}


@cache
def encoded(version: str) -> bytes:
    """The description as it is sent. It is the same for all peers of a version, and made once in a process."""
    return msgspec.json.encode(description(version))


def description(version: str) -> dict[str, Any]:
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, types), schemas))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schema_of)
    paths[PATH] = {
        "get": {
            "operationId": "description",
            "summary": "This description.",
            "responses": {
                "200": {"description": "OpenAPI 3.1.", "content": {"application/json": {}}},
                **_problems(EVERYWHERE, schema_of),
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "peerd",
            "version": version,
            "description": "Content-based publish/subscribe without brokers.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _types() -> list[Any]:
    found: dict[str, Any] = {repr(type_): type_ for type_ in SPOKEN}
    for operation in OPERATIONS:
        contents = [operation.body, *(answer.content for answer in operation.answers.values())]
        held = [type_ for content in contents for type_ in content.values() if type_ is not None]
        found |= {repr(each): each for type_ in held for each in _each(type_)}
    return list(found.values())


def _each(type_: Any) -> tuple[Any, ...]:
    return type_ if isinstance(type_, tuple) else (type_,)


def _operation(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.parameters:
        result["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.body:
        result["requestBody"] = {"required": True, "content": _content(operation.body, schema_of)}
    answers = {str(status): _answer(answer, schema_of) for status, answer in operation.answers.items()}
    result["responses"] = answers | _problems((*operation.problems, *EVERYWHERE), schema_of)
    if operation.open:
        result["security"] = []
    return result


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.what,
        "schema": parameter.schema,
    }


def _answer(answer: Answer, schema_of: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"description": answer.what}
    if answer.content:
        result["content"] = _content(answer.content, schema_of)
    if answer.headers:
        result["headers"] = {name: _HEADERS[name] for name in answer.headers}
    return result


def _content(content: dict[str, Any], schema_of: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": _schema(type_, schema_of)} for kind, type_ in content.items()}


def _schema(type_: Any, schema_of: dict[str, Any]) -> Any:
    if type_ is None:
        return {"type": "string"}
    schemas = [schema_of[repr(each)] for each in _each(type_)]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _problems(slugs: tuple[str, ...], schema_of: dict[str, Any]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for slug in dict.fromkeys(slugs):
        by_status.setdefault(PROBLEMS[slug].status, []).append(slug)
    responses: dict[str, Any] = {}
    for status, names in sorted(by_status.items()):
        responses[str(status)] = {
            "description": "; ".join(f"`{name}`: {PROBLEMS[name].meaning}" for name in names),
            "content": {CONTENT_TYPE: {"schema": schema_of[repr(Problem)]}},
        }
        if status in (429, 503):
            responses[str(status)]["headers"] = {"Retry-After": _HEADERS["Retry-After"]}
    return responses
