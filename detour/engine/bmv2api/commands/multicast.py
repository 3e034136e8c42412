# SPDX-License-Identifier: Apache-2.0
"""Commands about multicast groups, their nodes, and LAGs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.arguments import integer
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.registry import REST, Argument, calls, command
from detour.engine.bmv2api.commands.values import LINE, STARS
from detour.engine.bmv2api.interface import Api, SimplePreLag

_MOST = 512


def _bitmap(numbers: Sequence[str], what: str) -> str:
    """A string of 0 and 1; the last character is number 0."""
    members: set[int] = set()
    for text in numbers:
        if not text.isdecimal() or int(text) >= _MOST:
            raise CommandError(f"'{text}' is not a valid {what} number", f"numbers are 0 to {_MOST - 1}")
        if int(text) in members:
            raise CommandError(f"Found duplicate {what} number '{text}'")
        members.add(int(text))
    return f"{sum(1 << number for number in members):b}" if members else ""


def _targets(least: int) -> Argument:
    def parse(words: list[str], parsed: object) -> tuple[str, str]:
        at = words.index("|") if "|" in words else len(words)
        return _bitmap(words[:at], "port"), _bitmap(words[at + 1 :], "lag")

    return Argument("PORT... [| LAG...]", parse, least=least, most=REST)


_GROUP, _NODE = integer("GROUP", "multicast group id"), integer("NODE", "node handle")
_LAG = integer("LAG", "lag index", (1 << 15) - 1)
_LAG_PORTS = Argument("PORT...", lambda words, parsed: _bitmap(words, "lag"), most=REST)

calls("mc_mgrp_create", "create a multicast group", SimplePreLag.bm_mc_mgrp_create, _GROUP,
      before="Creating multicast group {}")  # fmt: skip
calls("mc_mgrp_destroy", "destroy a multicast group", SimplePreLag.bm_mc_mgrp_destroy, _GROUP,
      before="Destroying multicast group {}")  # fmt: skip
calls("mc_node_create", "create a node: a replication id with ports", SimplePreLag.bm_mc_node_create,
      integer("RID", "rid"), _targets(least=0), before="Creating node with rid {} , port map {} and lag map {}",
      result="node was created with handle {answer}")  # fmt: skip
calls("mc_node_update", "give a node other ports", SimplePreLag.bm_mc_node_update, _NODE, _targets(least=1),
      before="Updating node {} with port map {} and lag map {}")  # fmt: skip
calls("mc_node_associate", "put a node into a group", SimplePreLag.bm_mc_node_associate, _GROUP, _NODE,
      before="Associating node {1} to multicast group {0}")  # fmt: skip
calls("mc_node_dissociate", "take a node out of a group", SimplePreLag.bm_mc_node_dissociate, _GROUP, _NODE,
      before="Dissociating node {1} from multicast group {0}")  # fmt: skip
calls("mc_node_destroy", "destroy a node", SimplePreLag.bm_mc_node_destroy, _NODE, before="Destroying node {}")
calls("mc_set_lag_membership", "say which ports a LAG has", SimplePreLag.bm_mc_set_lag_membership, _LAG, _LAG_PORTS,
      before="Setting lag membership: {} <- {}")  # fmt: skip


@command("mc_dump", "show multicast groups, nodes and LAGs")
def mc_dump(api: Api) -> Iterable[str]:
    try:
        state = json.loads(api.multicast.bm_mc_get_entries())
    except ValueError:
        raise DetourError("the switch's answer is not JSON") from None
    nodes = {node["handle"]: node for node in state["l1_handles"]}
    targets = {each["handle"]: each for each in state["l2_handles"]}
    yield LINE
    yield "MC ENTRIES"
    for group in state["mgrps"]:
        yield STARS
        yield f"mgrp({group['id']})"
        for handle in group["l1_handles"]:
            target = targets[nodes[handle]["l2_handle"]]
            places = f"(ports=[{_listed(target['ports'])}], lags=[{_listed(target['lags'])}])"
            yield f"  -> (L1h={handle}, rid={nodes[handle]['rid']}) -> {places}"
    yield LINE
    yield "LAGS"
    for lag in state.get("lags", ()):
        yield f"lag({lag['id']}) -> ports=[{_listed(lag['ports'])}]"
    yield LINE


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
