# SPDX-License-Identifier: Apache-2.0
"""The control plane: pure planners, hashes, traces and verifier; the client and monitor that talk to switches."""
