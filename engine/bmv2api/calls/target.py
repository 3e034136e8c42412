# SPDX-License-Identifier: Apache-2.0
"""`simple_switch`: mirroring sessions, rates and depths of egress queues, time."""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.engine.bmv2api.calls.part import ReplicaPart
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.queues import Queues
from detour.engine.bmv2api.replication import MirroringSession, Replicas
from detour.engine.bmv2api.types import InvalidMirroringOperation, MirroringCode, MirroringSessionConfig
from detour.engine.pre import MAX_SESSION

_PS_A_US = 1_000_000


class TargetCalls(ReplicaPart):
    """See the module."""

    def __init__(self, device: BmDevice, replicas: Replicas, queues: Queues) -> None:
        super().__init__(device, replicas)
        self._queues = queues

    # -- mirroring

    def mirroring_session_add(self, mirror_id: int, config: MirroringSessionConfig) -> None:
        if not 0 <= mirror_id <= MAX_SESSION:
            raise DetourError(f"mirroring session {mirror_id}: ids are 0 to {MAX_SESSION}")
        self._put(mirror_id, MirroringSession(config.port, config.mgid))

    def _put(self, mirror_id: int, session: MirroringSession) -> None:
        replicas = self.replicas
        before = replicas.sessions.get(mirror_id)
        replicas.sessions[mirror_id] = session
        try:
            replicas.write_session(mirror_id)
        except DetourError:  # a port that no switch has
            if before is None:
                del replicas.sessions[mirror_id]
            else:
                replicas.sessions[mirror_id] = before
            raise

    def mirroring_session_delete(self, mirror_id: int) -> None:
        if not self._delete(mirror_id):
            raise InvalidMirroringOperation(MirroringCode.SESSION_NOT_FOUND)

    def _delete(self, mirror_id: int) -> bool:
        replicas = self.replicas
        if replicas.sessions.pop(mirror_id, None) is None:
            return False
        replicas.write_session(mirror_id)
        return True

    def mirroring_session_get(self, mirror_id: int) -> MirroringSessionConfig:
        found = self.replicas.sessions.get(mirror_id)
        if found is None:
            raise InvalidMirroringOperation(MirroringCode.SESSION_NOT_FOUND)
        return MirroringSessionConfig(found.port, found.group)

    # -- the same, as older clients ask for it; numbers in place of exceptions

    def mirroring_mapping_add(self, mirror_id: int, egress_port: int) -> int:
        if not 0 <= mirror_id <= MAX_SESSION:
            return 0
        self._put(mirror_id, MirroringSession(egress_port, None))
        return 1

    def mirroring_mapping_delete(self, mirror_id: int) -> int:
        return int(self._delete(mirror_id))

    def mirroring_mapping_get_egress_port(self, mirror_id: int) -> int:
        found = self.replicas.sessions.get(mirror_id)
        return -1 if found is None or found.port is None else found.port

    # -- queues

    def set_egress_priority_queue_depth(self, port_num: int, priority: int, depth_pkts: int) -> int:
        self._queues.set_depth(depth_pkts, port_num, priority)
        return 0

    def set_egress_queue_depth(self, port_num: int, depth_pkts: int) -> int:
        self._queues.set_depth(depth_pkts, port_num)
        return 0

    def set_all_egress_queue_depths(self, depth_pkts: int) -> int:
        self._queues.set_depth(depth_pkts)
        return 0

    def set_egress_priority_queue_rate(self, port_num: int, priority: int, rate_pps: int) -> int:
        self._queues.set_rate(rate_pps, port_num, priority)
        return 0

    def set_egress_queue_rate(self, port_num: int, rate_pps: int) -> int:
        self._queues.set_rate(rate_pps, port_num)
        return 0

    def set_all_egress_queue_rates(self, rate_pps: int) -> int:
        self._queues.set_rate(rate_pps)
        return 0

    # -- time

    def get_time_elapsed_us(self) -> int:
        return self.device.network.now_ps // _PS_A_US

    def get_time_since_epoch_us(self) -> int:
        return self.device.epoch_us + self.get_time_elapsed_us()
