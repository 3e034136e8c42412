# SPDX-License-Identifier: Apache-2.0
"""The engine: a P4 target that makes native code of BMv2 JSON and runs it in real or in virtual time."""
