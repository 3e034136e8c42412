# SPDX-License-Identifier: Apache-2.0
"""Commands about multicast groups, their nodes, and LAGs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.registry import CommandScope, CommandWork, Say, at_least, command, exactly, whole
from detour.engine.bmv2api.interface import Api

_LINE, _STARS = "==========", "**********"
_MOST = 512


def _group(text: str) -> int:
    return whole(text, "multicast group id", 0)


def _node(text: str) -> int:
    return whole(text, "node handle", 0)


def _map(numbers: Sequence[str], what: str) -> str:
    """A string of 0 and 1; the last character is number 0."""
    found: set[int] = set()
    for text in numbers:
        if not text.isdecimal() or int(text) >= _MOST:
            raise CommandError(f"'{text}' is not a valid {what} number", f"numbers are 0 to {_MOST - 1}")
        if int(text) in found:
            raise CommandError(f"Found duplicate {what} number '{text}'")
        found.add(int(text))
    return "".join("1" if number in found else "0" for number in range(max(found, default=-1), -1, -1))


def _ports_and_lags(words: list[str]) -> tuple[str, str]:
    at = words.index("|") if "|" in words else len(words)
    return _map(words[:at], "port"), _map(words[at + 1 :], "lag")


@command("mc_mgrp_create", "GROUP", "create a multicast group")
def mc_mgrp_create(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    group = _group(words[0])

    def work(api: Api, say: Say) -> None:
        say(f"Creating multicast group {group}")
        api.multicast.bm_mc_mgrp_create(0, group)

    return work


@command("mc_mgrp_destroy", "GROUP", "destroy a multicast group")
def mc_mgrp_destroy(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    group = _group(words[0])

    def work(api: Api, say: Say) -> None:
        say(f"Destroying multicast group {group}")
        api.multicast.bm_mc_mgrp_destroy(0, group)

    return work


@command("mc_node_create", "RID PORT... [| LAG...]", "create a node: a replication id with ports")
def mc_node_create(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 1)
    rid = whole(words[0], "rid", 0)
    ports, lags = _ports_and_lags(words[1:])

    def work(api: Api, say: Say) -> None:
        say(f"Creating node with rid {rid} , port map {ports} and lag map {lags}")
        say(f"node was created with handle {api.multicast.bm_mc_node_create(0, rid, ports, lags)}")

    return work


@command("mc_node_update", "NODE PORT... [| LAG...]", "give a node other ports")
def mc_node_update(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 2)
    node = _node(words[0])
    ports, lags = _ports_and_lags(words[1:])

    def work(api: Api, say: Say) -> None:
        say(f"Updating node {node} with port map {ports} and lag map {lags}")
        api.multicast.bm_mc_node_update(0, node, ports, lags)

    return work


@command("mc_node_associate", "GROUP NODE", "put a node into a group")
def mc_node_associate(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    group, node = _group(words[0]), _node(words[1])

    def work(api: Api, say: Say) -> None:
        say(f"Associating node {node} to multicast group {group}")
        api.multicast.bm_mc_node_associate(0, group, node)

    return work


@command("mc_node_dissociate", "GROUP NODE", "take a node out of a group")
def mc_node_dissociate(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    group, node = _group(words[0]), _node(words[1])

    def work(api: Api, say: Say) -> None:
        say(f"Dissociating node {node} from multicast group {group}")
        api.multicast.bm_mc_node_dissociate(0, group, node)

    return work


@command("mc_node_destroy", "NODE", "destroy a node")
def mc_node_destroy(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    node = _node(words[0])

    def work(api: Api, say: Say) -> None:
        say(f"Destroying node {node}")
        api.multicast.bm_mc_node_destroy(0, node)

    return work


@command("mc_set_lag_membership", "LAG PORT...", "say which ports a LAG has")
def mc_set_lag_membership(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 2)
    lag, ports = whole(words[0], "lag index", 0, (1 << 15) - 1), _map(words[1:], "lag")

    def work(api: Api, say: Say) -> None:
        say(f"Setting lag membership: {lag} <- {ports}")
        api.multicast.bm_mc_set_lag_membership(0, lag, ports)

    return work


@command("mc_dump", "", "show multicast groups, nodes and LAGs")
def mc_dump(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)

    def work(api: Api, say: Say) -> None:
        try:
            told = json.loads(api.multicast.bm_mc_get_entries(0))
        except ValueError:
            raise DetourError("the switch's answer is not JSON") from None
        nodes = {node["handle"]: node for node in told["l1_handles"]}
        targets = {each["handle"]: each for each in told["l2_handles"]}
        say(_LINE)
        say("MC ENTRIES")
        for group in told["mgrps"]:
            say(_STARS)
            say(f"mgrp({group['id']})")
            for handle in group["l1_handles"]:
                target = targets[nodes[handle]["l2_handle"]]
                places = f"(ports=[{_listed(target['ports'])}], lags=[{_listed(target['lags'])}])"
                say(f"  -> (L1h={handle}, rid={nodes[handle]['rid']}) -> {places}")
        say(_LINE)
        say("LAGS")
        for lag in told.get("lags", ()):
            say(f"lag({lag['id']}) -> ports=[{_listed(lag['ports'])}]")
        say(_LINE)

    return work


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
