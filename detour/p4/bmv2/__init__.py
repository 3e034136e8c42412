# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON, and the architectures that BMv2's switches have: a module for each."""
