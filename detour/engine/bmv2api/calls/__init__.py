# SPDX-License-Identifier: Apache-2.0
"""BMv2's calls, carried out on a switch of the engine: a module a subject, each a part of a service."""
