"""Which swarm a peer belongs to, and whether another peer belongs to the same.

A swarm is its name, its overlay with all parameters, and the schema that it began with. Its id is the hash of these,
never random: a seed that restarts without its state is still the same swarm, and two beginnings merge. The schema may
have grown since, elsewhere perhaps by other attributes than here (`protocols/growth.py`); a newcomer finds the
beginning again as the shortest part of the present schema that makes the id.
"""

from hashlib import sha256
from typing import Any

import msgspec

from peerd.net.greeting import Greeting, Refusal, refusal
from peerd.store import StoredSwarm
from protocols.model.schema import Schema, SchemaError


def swarm_id(name: str, overlay: str, parameters: dict[str, Any], first: Schema) -> str:
    described = [name, overlay, sorted(parameters.items()), first.to_dict()]
    return sha256(msgspec.json.encode(described)).hexdigest()[:32]


def id_of(swarm: StoredSwarm) -> str:
    return swarm_id(swarm.name, swarm.overlay, swarm.parameters, swarm.first_schema)


def described(swarm: StoredSwarm) -> str:
    """What people can tell it apart by."""
    return f"'{swarm.name}' ({swarm.overlay}, id {id_of(swarm)[:8]})"


def learned(greeting: Greeting) -> StoredSwarm:
    """The swarm that a contact tells of; `SchemaError` or `ValueError` in one line if what it tells makes no sense."""
    schema = Schema.from_dict({"attributes": greeting.schema})
    for length in range(1, schema.version + 1):
        first = Schema(schema.attributes[:length])
        if swarm_id(greeting.swarm, greeting.overlay, greeting.parameters, first) == greeting.swarm_id:
            return StoredSwarm(
                name=greeting.swarm,
                overlay=greeting.overlay,
                parameters=dict(greeting.parameters),
                schema=first.merged(schema),
                first_schema=first,
            )
    raise ValueError("the contact's swarm id does not belong to what it says of its swarm")


def check(greeting: Greeting, ours: StoredSwarm) -> Refusal | None:
    """Why not to talk to this peer; None if it is one of us."""
    if greeting.swarm_id != id_of(ours):
        return _difference(greeting, ours)
    try:
        ours.first_schema.merged(Schema.from_dict({"attributes": greeting.schema}))
    except SchemaError as error:
        return refusal("schema", f"your schema is not one of this swarm's: {error}")
    return None


def _difference(greeting: Greeting, ours: StoredSwarm) -> Refusal:
    if greeting.swarm != ours.name:
        return refusal("swarm", f"this is swarm '{ours.name}', not '{greeting.swarm}'")
    if greeting.overlay != ours.overlay:
        return refusal("overlay", f"this swarm runs overlay '{ours.overlay}', not '{greeting.overlay}'")
    if dict(greeting.parameters) != ours.parameters:
        return refusal("parameters", "this swarm runs its overlay with other parameters")
    return refusal("schema", "this swarm began with another schema")
