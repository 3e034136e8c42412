# SPDX-License-Identifier: Apache-2.0
"""`simple_switch`: mirroring sessions, rates and depths of egress queues, time."""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.engine.bmv2api.calls.part import CallPart, QueueSetting
from detour.engine.bmv2api.replication import MirroringSession
from detour.engine.bmv2api.types import InvalidMirroringOperation, MirroringCode, MirroringSessionConfig
from detour.engine.pre import MAX_SESSION

_PS_A_US = 1_000_000


class TargetCalls(CallPart):
    """See the module."""

    # -- mirroring

    def mirroring_session_add(self, mirror_id: int, config: MirroringSessionConfig) -> None:
        if not 0 <= mirror_id <= MAX_SESSION:
            raise DetourError(f"mirroring session {mirror_id}: ids are 0 to {MAX_SESSION}")
        replicas = self.replicas
        before = replicas.sessions.get(mirror_id)
        replicas.sessions[mirror_id] = MirroringSession(config.port, config.mgid)
        try:
            replicas.write_session(mirror_id)
        except DetourError:  # a port that no switch has
            if before is None:
                del replicas.sessions[mirror_id]
            else:
                replicas.sessions[mirror_id] = before
            raise

    def mirroring_session_delete(self, mirror_id: int) -> None:
        replicas = self.replicas
        if replicas.sessions.pop(mirror_id, None) is None:
            raise InvalidMirroringOperation(MirroringCode.SESSION_NOT_FOUND)
        replicas.write_session(mirror_id)

    def mirroring_session_get(self, mirror_id: int) -> MirroringSessionConfig:
        session = self.replicas.sessions.get(mirror_id)
        if session is None:
            raise InvalidMirroringOperation(MirroringCode.SESSION_NOT_FOUND)
        return MirroringSessionConfig(session.port, session.group)

    # -- the same, as older clients ask for it; numbers in place of exceptions

    def mirroring_mapping_add(self, mirror_id: int, egress_port: int) -> int:
        if not 0 <= mirror_id <= MAX_SESSION:
            return 0
        self.mirroring_session_add(mirror_id, MirroringSessionConfig(egress_port, None))
        return 1

    def mirroring_mapping_delete(self, mirror_id: int) -> int:
        try:
            self.mirroring_session_delete(mirror_id)
        except InvalidMirroringOperation:
            return 0
        return 1

    def mirroring_mapping_get_egress_port(self, mirror_id: int) -> int:
        session = self.replicas.sessions.get(mirror_id)
        return -1 if session is None or session.port is None else session.port

    # -- queues

    def set_egress_priority_queue_depth(self, port_num: int, priority: int, depth_pkts: int) -> int:
        return self.queues.set(QueueSetting(port_num, priority, depth=depth_pkts))

    def set_egress_queue_depth(self, port_num: int, depth_pkts: int) -> int:
        return self.queues.set(QueueSetting(port_num, None, depth=depth_pkts))

    def set_all_egress_queue_depths(self, depth_pkts: int) -> int:
        return self.queues.set(QueueSetting(None, None, depth=depth_pkts))

    def set_egress_priority_queue_rate(self, port_num: int, priority: int, rate_pps: int) -> int:
        return self.queues.set(QueueSetting(port_num, priority, rate=rate_pps))

    def set_egress_queue_rate(self, port_num: int, rate_pps: int) -> int:
        return self.queues.set(QueueSetting(port_num, None, rate=rate_pps))

    def set_all_egress_queue_rates(self, rate_pps: int) -> int:
        return self.queues.set(QueueSetting(None, None, rate=rate_pps))

    # -- time

    def get_time_elapsed_us(self) -> int:
        return self.device.network.now_ps // _PS_A_US

    def get_time_since_epoch_us(self) -> int:
        return self.device.epoch_us + self.get_time_elapsed_us()
