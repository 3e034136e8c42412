# SPDX-License-Identifier: Apache-2.0
"""The engine's P4Runtime server (p4.v1.P4Runtime): many switches at one endpoint, told apart by device_id.

- `server`     the gRPC server: address, TLS, its thread; what the rest of detour uses
- `service`    the six RPCs; `stream` and `arbitration` what a StreamChannel is about
- `device`     one switch: pipelines, arbitration, locks, notifications
- `pipeline`   SetForwardingPipelineConfig and its actions; `config` one ForwardingPipelineConfig
- `schema`     P4Info, checked against the BMv2 JSON, as codecs: `match`, `actions`, `p4data`, `packets`
- `translation`  between the controller's values and the data plane's; `restrictions`, `references`: what the program
  demands of entries (`annotations`)
- `store`      what the clients wrote: the engine's `SwitchState` and what P4Runtime adds to it
- `entities/`  the kinds of entities: how each is written and read
- `write`, `atomic`, `read`  batches; `digests`  notifications
- `engine.target`  the only module that talks to the engine's network and compiler
"""

from detour.engine.p4runtime.arbitration import StreamClient
from detour.engine.p4runtime.config import Compiled, Compiler
from detour.engine.p4runtime.errors import Code, Refused
from detour.engine.p4runtime.pipeline import Pipelines
from detour.engine.p4runtime.server import P4RuntimeServer, Tls
from detour.engine.p4runtime.store import EntityStore, Note, ProfileStore, TableStore
from detour.engine.target import TargetSwitch, compile_program

__all__ = [
    "Code", "Compiled", "Compiler", "EntityStore", "Note", "P4RuntimeServer", "Pipelines", "ProfileStore", "Refused",
    "StreamClient", "TableStore", "TargetSwitch", "Tls", "annotations", "compile_program", "errors", "restrictions",
    "schema", "write",
]  # fmt: skip
