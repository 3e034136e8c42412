# SPDX-License-Identifier: Apache-2.0
"""The process that keeps a fabric, and how commands find and reach it."""

__all__ = ["client", "control_socket", "daemon", "options", "state_dir"]
