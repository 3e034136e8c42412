# SPDX-License-Identifier: Apache-2.0
"""The workers that compile pushed programs, when the server stops."""

from __future__ import annotations

import threading

import pytest
from finsy.proto import p4r

from detour.engine.p4runtime import Code, Refused, config
from tests.waiting import PATIENCE_S


def test_compilations_that_have_not_begun_end_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them for ever, and they do not count when the server starts again."""
    go_on = threading.Event()

    def slow(text: bytes) -> None:
        assert go_on.wait(PATIENCE_S)
        raise Refused(Code.INVALID_ARGUMENT, "slow")

    monkeypatch.setattr(config, "compile_program", slow)
    compiler = config.Compiler()

    def begin(number: int) -> config.Future[config.Compiled]:
        message = p4r.ForwardingPipelineConfig(p4_device_config=b"{%d" % number)
        message.p4info.SetInParent()
        return compiler._begin(message)

    waiting = [begin(number) for number in range(config._MOST)]
    compiler.close()
    for future in waiting[config._WORKERS :]:
        with pytest.raises(Refused, match="the server stops"):
            future.result(PATIENCE_S)
    go_on.set()
    for future in waiting[: config._WORKERS]:
        with pytest.raises(Refused, match="slow"):
            future.result(PATIENCE_S)
    with pytest.raises(Refused, match="slow"):
        begin(0).result(PATIENCE_S)
    compiler.close()
