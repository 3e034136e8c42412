# SPDX-License-Identifier: Apache-2.0
"""LERP and go-back-N: what is sent, what is believed of what comes back, and when to send again."""
