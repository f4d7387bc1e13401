"""Which swarm a peer belongs to, and through whom it gets in.

    a data directory knows one      that one; a contact that answers must belong to it
    contacts are named              theirs: overlay, parameters and schema come from whichever answers first
    nobody answers                  asked again for ever, or until `--bootstrap` is over: then this peer begins it
    neither                         a new one, of the settings

The settings may insist on a swarm, an overlay, parameters or a schema. What is found must agree with that, or the peer
does not start.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from peerd import registry, swarms
from peerd.config import Settings, SettingsError
from peerd.net import NetError, inquire, others, resolve, split_endpoint
from peerd.net.tls import Tls
from peerd.store import Storage, StoredSwarm
from protocols.model.schema import STOCKS, Schema, SchemaError

ASK_AGAIN_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between rounds through the contacts; the last one is repeated. As bootstrap does later (specification)."""
DEFAULT_SWARM: Final = "peerd"

_log = logging.getLogger("peerd.daemon")


class Search:
    """`stopping` ends it."""

    def __init__(self, settings: Settings, store: Storage, tls: Tls | None, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._store = store
        self._tls = tls
        self._stopping = stopping

    async def find(self) -> StoredSwarm | None:
        """The swarm to be in; None if told to stop before anybody was found. `SettingsError` if it is not as wanted."""
        known = self._store.swarm
        if known is not None:
            self._agrees(known, f"the swarm in {self._settings.data_dir}")
            return await self._still(known)
        found = await self._ask_contacts() if self._settings.join else self._new_swarm()
        if found is not None:
            self._store.save_swarm(found)
        return found

    async def _still(self, known: StoredSwarm) -> StoredSwarm:
        """The swarm of the data directory, whether a contact answers or not; but a contact of another one is refused:
        subscriptions mean nothing there."""
        for at in await self.resolved(self._settings.join):
            swarm = await self._ask(at)
            if swarm is None:
                continue
            if swarms.id_of(swarm) != swarms.id_of(known):
                raise SettingsError(
                    f"{at} belongs to the swarm {swarms.described(swarm)}, and {self._settings.data_dir} to "
                    f"{swarms.described(known)}; give another --join or --data-dir"
                )
            return msgspec.structs.replace(known, schema=known.schema.merged(swarm.schema))
        return known

    def _new_swarm(self) -> StoredSwarm:
        overlay = self._settings.overlay or registry.DEFAULT
        config = self._parameters(overlay)
        schema = self._own_schema() or STOCKS
        try:
            registry.kind(overlay).fits(config, schema)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        name = self._settings.swarm or DEFAULT_SWARM
        parameters = msgspec.to_builtins(config)
        return StoredSwarm(name=name, overlay=overlay, parameters=parameters, schema=schema, first_schema=schema)

    def _parameters(self, overlay: str) -> msgspec.Struct:
        try:
            return registry.parameters(overlay, self._settings.parameters)
        except ValueError as error:
            raise SettingsError(str(error)) from None

    def _own_schema(self) -> Schema | None:
        path = self._settings.schema
        if path is None:
            return None
        try:
            return Schema.from_toml(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, SchemaError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(f"{self._settings.source('schema')}: {path}: {reason}") from None

    async def _ask_contacts(self) -> StoredSwarm | None:
        """Learn the swarm from whichever contact answers first; begin it, if the settings say so, when nobody does."""
        loop = asyncio.get_running_loop()
        begin_at = None if self._settings.bootstrap is None else loop.time() + self._settings.bootstrap
        attempt = 0
        while not self._stopping.is_set():
            contacts = await self.resolved(self._settings.join)
            for at in contacts:
                swarm = await self._ask(at)
                if swarm is not None:
                    return swarm
            if not contacts:
                _log.warning("%s names no peer but this one; trying again", " ".join(self._settings.join))
            if begin_at is not None and loop.time() >= begin_at:
                _log.info("nobody was found for %g s: this peer begins the swarm", self._settings.bootstrap)
                return self._new_swarm()
            pause_s = ASK_AGAIN_S[min(attempt, len(ASK_AGAIN_S) - 1)]
            if begin_at is not None:
                pause_s = min(pause_s, max(0.05, begin_at - loop.time()))
            attempt += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
        return None

    async def _ask(self, at: str) -> StoredSwarm | None:
        try:
            swarm = swarms.learned(await inquire(at, tls=self._tls))
        except NetError as error:
            _log.warning("%s; trying again", error)
            return None
        except ValueError as error:
            _log.warning("%s: %s", at, error)
            return None
        self._agrees(swarm, f"the swarm at {at}")
        return swarm

    def _agrees(self, swarm: StoredSwarm, what: str) -> None:
        """The settings may insist on an overlay, parameters, a schema or a swarm, but not on others than it has."""
        settings = self._settings
        if settings.swarm is not None and settings.swarm != swarm.name:
            raise SettingsError(
                f"{what} is called '{swarm.name}', and {settings.source('swarm')} wants '{settings.swarm}'"
            )
        if settings.overlay is not None and settings.overlay != swarm.overlay:
            raise SettingsError(
                f"{what} runs overlay '{swarm.overlay}', and {settings.source('overlay')} wants '{settings.overlay}'"
            )
        if swarm.overlay not in registry.NAMES:
            raise SettingsError(f"{what} runs overlay '{swarm.overlay}', which this version does not have")
        wanted = msgspec.to_builtins(self._parameters(swarm.overlay)) if settings.parameters else swarm.parameters
        for key, value in wanted.items():
            if key in settings.parameters and swarm.parameters.get(key) != value:
                raise SettingsError(f"{what} has {key}={swarm.parameters.get(key)}, and --set wants {value}")
        schema = self._own_schema()
        if schema is not None and not swarm.schema.extends(schema):
            raise SettingsError(f"{what} has another schema than {settings.schema}; leave --schema out to take it over")

    async def contacts(self) -> list[str]:
        """The endpoints to join through: those that the settings name, then those that an earlier life knew."""
        return await self.resolved((*self._settings.join, *self._store.contacts))

    async def resolved(self, endpoints: Iterable[str]) -> list[str]:
        """Every address of every name, without this peer's own."""
        listening = split_endpoint(self._settings.listen)
        found: list[str] = []
        for at in endpoints:
            try:
                found += others(await resolve(at), listening)
            except OSError as error:
                _log.warning("%s; trying again", error)
        return list(dict.fromkeys(found))
