# SPDX-License-Identifier: Apache-2.0
"""The suites: unit, property, PTF packet tests, differential and fault tests."""
