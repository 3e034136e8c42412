# SPDX-License-Identifier: Apache-2.0
"""Cost of a packet-hop in the event loop alone, with a program that does nothing. Not a test: run it by hand.

    python tests/unit/engine_loop/measure.py

Prints CPU time per hop for rings of switches with 100 Gb/s links: the best and the median of many windows.
"""

from __future__ import annotations

import time

from script_program import CrossProgram, ScriptState

from detour.engine.clock import Virtual
from detour.engine.network import Network

_WINDOW_PS = 10_000_000
_SECONDS = 5.0
_RATE_BPS = 100_000_000_000
_DELAY_PS = 1_000_000


def _ring(switches: int, packets: int) -> Network:
    network = Network(Virtual(), packets=1 << 17)
    program = CrossProgram()
    for device_id in range(1, switches + 1):
        network.add_switch(device_id)
        network.set_pipeline(device_id, program, ScriptState())
    for device_id in range(1, switches + 1):
        ends = (device_id, 2), (device_id % switches + 1, 1)
        network.connect(*ends, _RATE_BPS, _DELAY_PS, queue_packets=packets)
    for number in range(packets):
        network.inject((number % switches + 1, 1), bytes(1000), number * 1000)
    return network


def main() -> None:
    """Prints the table."""
    for switches, packets in ((36, 72), (36, 2000), (264, 20000)):
        with _ring(switches, packets) as network:
            network.run(_WINDOW_PS)
            costs = []
            end = time.perf_counter() + _SECONDS
            while time.perf_counter() < end:
                before, begin = int(network.switch_stats()["packets"].sum()), time.thread_time()
                network.run(network.now_ps + _WINDOW_PS)
                spent = time.thread_time() - begin
                costs.append(spent * 1e9 / (int(network.switch_stats()["packets"].sum()) - before))
            costs.sort()
            best, median = costs[0], costs[len(costs) // 2]
            print(f"{switches:4} switches {packets:6} packets: best {best:4.0f}, median {median:4.0f} ns a hop")


if __name__ == "__main__":
    main()
